package configs

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// checkVariables refuses a variable that is ours by its name and means nothing. An empty
// variable is one that is not set.
func checkVariables(environ []string) error {
	known := slices.Clone(variables)
	for _, s := range Settings {
		known = append(known, s.ownVariables()...)
	}
	slices.Sort(environ)
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, envPrefix) || variable(name) == "" || inKubernetes() && serviceName.MatchString(name) || slices.Contains(known, name) {
			continue
		}
		return fmt.Errorf("%w: unknown variable %s, the nearest known is %s", ErrInvalid, name, nearest(name, known))
	}
	return nil
}

// variable returns a variable's value, or "" if it is not set or Kubernetes has set it for a
// Service. A Service called ringcli-tcp makes RINGCLI_TCP_PORT=tcp://10.96.0.1:18600.
func variable(name string) string {
	value := os.Getenv(name)
	if inKubernetes() && serviceURL.MatchString(value) && strings.HasPrefix(name, envPrefix) {
		return ""
	}
	return value
}

// What kubelet sets in each pod for a Service with a cluster IP (the form of Docker's links):
// NAME_SERVICE_HOST, NAME_SERVICE_PORT, NAME_SERVICE_PORT_PORTNAME, NAME_PORT=tcp://IP:PORT, and
// NAME_PORT_N_TCP with _PROTO, _PORT and _ADDR.
// Source: pkg/kubelet/envvars/envvars.go of Kubernetes.
var (
	serviceURL  = regexp.MustCompile(`^(tcp|udp|sctp)://`)
	serviceName = regexp.MustCompile(`^[A-Z0-9_]+_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT|PORT_[0-9]+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?)$`)
)

func inKubernetes() bool { return os.Getenv("KUBERNETES_SERVICE_HOST") != "" }

// readForeign takes a setting's value from the first of other programs' variables that has one
// which the setting takes. If none has, a command that needs the setting reports the first
// (CheckForeign); other commands do not care.
func (c *Config) readForeign(s Setting) {
	for _, name := range s.foreignVariables() {
		text := os.Getenv(name)
		if text == "" {
			continue
		}
		value, err := s.Parse(text)
		if err == nil {
			c.values[s.Name] = Value{Name: s.Name, Value: value, Origin: Origin{FromEnv, name}}
			return
		}
		if c.foreign[s.Name] != nil {
			continue
		}
		err = fmt.Errorf("%w (from %s)", err, Origin{FromEnv, name})
		if inKubernetes() && serviceURL.MatchString(text) {
			service := strings.ToLower(strings.ReplaceAll(strings.TrimSuffix(name, "_PORT"), "_", "-"))
			err = fmt.Errorf("%w: Kubernetes sets it for the Service %s: set enableServiceLinks: false in the pod's spec", err, service)
		}
		c.foreign[s.Name] = err
	}
}

// CheckForeign returns an error if another program's variable has a value that one of these
// settings does not take. It wraps ErrInvalid.
func (c *Config) CheckForeign(names ...string) error {
	for _, name := range names {
		if err := c.foreign[name]; err != nil && !c.IsSet(name) {
			return err
		}
	}
	return nil
}

// IsForeign tells whether another program's variable holds the value.
func (o Origin) IsForeign() bool { return o.Source == FromEnv && !strings.HasPrefix(o.Name, envPrefix) }

// WithForeign returns a Config in which a setting has the value of another program's variable.
// Errors are those of With.
func (c *Config) WithForeign(name, value, variable string) (*Config, error) {
	next, err := c.With(name, value)
	if err == nil {
		v := next.values[name]
		v.Origin = Origin{FromEnv, variable}
		next.values[name] = v
	}
	return next, err
}

// Foreign returns why other programs' variables were not read, in the order of Settings.
func (c *Config) Foreign() (errs []error) {
	for _, s := range Settings {
		if err := c.foreign[s.Name]; err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}
