/* Functions of the library of mock_cuda.c, which a test finds by dlsym. */
#ifndef TEST_UNIT_MOCK_CUDA_H
#define TEST_UNIT_MOCK_CUDA_H

/* From now on the library behaves as if the application had called cuInit. */
void mock_cuda_initialise(void);

/* How often cuCtxGetCurrent was called. */
int mock_cuda_questions(void);

/* How often functions were called that a caller needs to initialise the driver. */
int mock_cuda_probes(void);

#endif
