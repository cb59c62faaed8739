#include "ops/elementwise_kernels.h"

namespace hf2q {

const ElementwiseKernels kElementwiseAvx2 = kTable;

}  // namespace hf2q
