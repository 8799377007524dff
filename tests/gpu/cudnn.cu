/*
 * tests/gpu/cudnn.cu - cuDNN from C: a convolution, an activation, pooling, softmax.
 */
#include <cudnn.h>
#include <vector>

#include "check.h"

#define DNN(call) EXPECT((call) == CUDNN_STATUS_SUCCESS)

static cudnnTensorDescriptor_t tensor(int n, int c, int h, int w)
{
	cudnnTensorDescriptor_t t;

	DNN(cudnnCreateTensorDescriptor(&t));
	DNN(cudnnSetTensor4dDescriptor(t, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, c, h, w));
	return t;
}

static float *numbers(int n)
{
	std::vector<float> host(n);
	float *at;

	for (int i = 0; i < n; i++)
		host[i] = (float)(i % 17) / 8 - 1;
	CHECK(cudaMalloc(&at, n * sizeof(float)));
	CHECK(cudaMemcpy(at, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
	return at;
}

static void print_sum(const char *what, const float *at, int n)
{
	std::vector<float> host(n);
	double sum = 0;

	CHECK(cudaMemcpy(host.data(), at, n * sizeof(float), cudaMemcpyDeviceToHost));
	for (int i = 0; i < n; i++)
		sum += host[i] * (i % 7 + 1);
	printf("%s %a\n", what, sum);
}

int main()
{
	cudnnTensorDescriptor_t x = tensor(2, 8, 20, 20), y = tensor(2, 4, 18, 18), p = tensor(2, 4, 9, 9);
	float one = 1, zero = 0, *in = numbers(6400), *w = numbers(288), *out = numbers(2592), *pooled = numbers(648);
	cudnnConvolutionDescriptor_t conv;
	cudnnActivationDescriptor_t relu;
	cudnnPoolingDescriptor_t pool;
	cudnnFilterDescriptor_t filter;
	cudnnHandle_t h;
	size_t size = 0;
	void *space;

	DNN(cudnnCreate(&h));
	DNN(cudnnCreateFilterDescriptor(&filter));
	DNN(cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 4, 8, 3, 3));
	DNN(cudnnCreateConvolutionDescriptor(&conv));
	DNN(cudnnSetConvolution2dDescriptor(conv, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
	DNN(cudnnGetConvolutionForwardWorkspaceSize(h, x, filter, conv, y, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
						    &size));
	CHECK(cudaMalloc(&space, size + 1));
	DNN(cudnnConvolutionForward(h, &one, x, in, filter, w, conv, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, space,
				    size, &zero, y, out));
	print_sum("convolution", out, 2592);
	DNN(cudnnCreateActivationDescriptor(&relu));
	DNN(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0));
	DNN(cudnnActivationForward(h, relu, &one, y, out, &zero, y, out));
	DNN(cudnnCreatePoolingDescriptor(&pool));
	DNN(cudnnSetPooling2dDescriptor(pool, CUDNN_POOLING_MAX, CUDNN_NOT_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2));
	DNN(cudnnPoolingForward(h, pool, &one, y, out, &zero, p, pooled));
	print_sum("relu, pooling", pooled, 648);
	DNN(cudnnSoftmaxForward(h, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one, p, pooled, &zero, p,
				pooled));
	print_sum("softmax", pooled, 648);
	DNN(cudnnDestroy(h));
	return 0;
}
