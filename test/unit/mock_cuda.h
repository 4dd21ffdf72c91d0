/* What a test asks the library of mock_cuda.c, which it finds by dlsym. */
#ifndef TEST_UNIT_MOCK_CUDA_H
#define TEST_UNIT_MOCK_CUDA_H

/* From here on as after cuInit of the application. */
void mock_cuda_initialise(void);

/* How often cuCtxGetCurrent was called. */
int mock_cuda_questions(void);

/* How often something was called that one calls to initialise the driver. */
int mock_cuda_probes(void);

#endif
