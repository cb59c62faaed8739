#include "ops/elementwise_kernels.h"

namespace hf2q {

const ElementwiseKernels kElementwiseAvx512 = kTable;

}  // namespace hf2q
