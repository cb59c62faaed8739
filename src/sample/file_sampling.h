#pragma once
// What a model file asks of the sampler.

#include "base/result.h"
#include "gguf/reader.h"
#include "sample/params.h"

namespace hf2q {

// The keys general.sampling.temp, .top_p and .min_p (f32) and .top_k (i32 or u32) over the
// sampler's own defaults. kCorrupt, naming the file and the key, for another type and for values
// that validate() refuses.
Result<SamplingParams> read_sampling(const GgufFile& file);

}  // namespace hf2q
