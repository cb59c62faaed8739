# The CUDA build: every src/**/*.cu, as one object library inside hf2q_core.
enable_language(CUDA)
# CMake 3.25 does not know how nvcc spells C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA_STANDARD 20)
find_package(CUDAToolkit REQUIRED)
file(GLOB_RECURSE CUDA_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/*.cu)
if(CUDA_SOURCES)
  target_sources(hf2q_core PRIVATE ${CUDA_SOURCES})
endif()
target_compile_definitions(hf2q_core PUBLIC HF2Q_CUDA=1)
target_link_libraries(hf2q_core PUBLIC CUDA::cudart)
