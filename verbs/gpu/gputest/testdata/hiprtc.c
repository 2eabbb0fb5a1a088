// A compiler with the ABI of libhiprtc (hiprtc.h): its code object is the source. A source with
// #error does not compile.
#include <stdlib.h>
#include <string.h>

struct program {
	char *source;
	const char *log;
};
static const char head[] = "gputest code\n";

#define CALL(name, ...) __attribute__((visibility("default"))) int name(__VA_ARGS__)

__attribute__((visibility("default"))) const char *hiprtcGetErrorString(int code)
{
	return code == 6 ? "HIPRTC_ERROR_COMPILATION" : "HIPRTC_ERROR_INVALID_INPUT";
}

CALL(hiprtcCreateProgram, struct program **p, const char *source, const char *name, int headers, const char **contents, const char **names)
{
	if (!source || !name || headers || contents || names)
		return 3;
	*p = calloc(1, sizeof **p);
	(*p)->source = strdup(source), (*p)->log = "";
	return 0;
}

CALL(hiprtcCompileProgram, struct program *p, int options, const char **option)
{
	for (int i = 0; i < options; i++)
		if (strncmp(option[i], "--offload-arch=", 15))
			return 5;
	if (!strstr(p->source, "#error"))
		return 0;
	p->log = "error: #error in the source";
	return 6;
}

CALL(hiprtcGetProgramLogSize, struct program *p, size_t *n) { *n = strlen(p->log) + 1; return 0; }
CALL(hiprtcGetProgramLog, struct program *p, char *text) { strcpy(text, p->log); return 0; }
CALL(hiprtcGetCodeSize, struct program *p, size_t *n) { *n = strlen(head) + strlen(p->source) + 1; return 0; }
CALL(hiprtcGetCode, struct program *p, char *code) { strcpy(code, head); strcat(code, p->source); return 0; }
CALL(hiprtcDestroyProgram, struct program **p) { free((*p)->source); free(*p); return 0; }
