# The CUDA build: every src/**/*.cu joins hf2q_core. The preset shares the folder of the release
# build, whose C++ objects stay as they are: nothing here may change their flags.
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
target_link_libraries(hf2q_core PUBLIC $<LINK_ONLY:CUDA::cudart>)
