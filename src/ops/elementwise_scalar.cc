#include "ops/elementwise_kernels.h"

namespace hf2q {

const ElementwiseKernels kElementwiseScalar = kTable;

}  // namespace hf2q
