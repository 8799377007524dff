#!/bin/sh
# tests/data/elf/make_data.sh - make the test data of elf/ again, with nvcc 13.0.
# The tests need only its results, which lie beside it; no toolkit is needed to run them.
set -e
cd "$(dirname "$0")"
NVCC="${NVCC:-nvcc} -frandom-seed=cricket"

for sm in 75 80 90 100 120; do
	$NVCC -cubin -arch=sm_$sm kernels.cu -o sm_$sm.cubin
done
# more than 4 KB of parameters, in the old and the new parameter space
for sm in 75 90; do
	$NVCC -DBIG -cubin -arch=sm_$sm kernels.cu -o big_sm_$sm.cubin
done
# relocatable, and linked from it
$NVCC -rdc=true -cubin -arch=sm_80 linked.cu -o rdc_sm_80.cubin
$NVCC -rdc=true -dlink -cubin -arch=sm_80 linked.cu -o linked_sm_80.cubin
$NVCC -ptx -arch=compute_90 kernels.cu -o kernels.ptx

ARCHS="-gencode arch=compute_75,code=sm_75 -gencode arch=compute_80,code=sm_80
	-gencode arch=compute_86,code=sm_86 -gencode arch=compute_90,code=[sm_90,compute_90]"
for mode in default size speed none; do
	$NVCC -fatbin -compress-mode=$mode $ARCHS one.cu -o compress_$mode.fatbin
done
# targets of one architecture and of one family, the plain ones among them
$NVCC -fatbin -gencode arch=compute_80,code=compute_80 \
	-gencode arch=compute_90,code=[sm_90,compute_90] \
	-gencode arch=compute_90a,code=[sm_90a,compute_90a] \
	-gencode arch=compute_100f,code=[sm_100f,compute_100f] \
	-gencode arch=compute_103,code=sm_103 one.cu -o specific.fatbin
# entries that carry the name of their source
fatbinary --create=named.fatbin -64 --ident=one.cu \
	--image3=kind=elf,sm=80,file=rdc_sm_80.cubin --image3=kind=ptx,sm=90,file=kernels.ptx
# kernels that print
$NVCC -DPRINT -cubin -arch=sm_90 prints.cu -o printf_sm_90.cubin
$NVCC -cubin -arch=sm_90 prints.cu -o assert_sm_90.cubin
$NVCC -DPRINT -ptx -arch=compute_90 prints.cu -o printf.ptx
# intermediate code for linking, which no driver loads by itself
$NVCC -fatbin -rdc=true -gencode arch=compute_80,code=lto_80 one.cu -o lto.fatbin
