#include "engine/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support/temp_folder.h"
#include "support/value_of.h"

namespace hf2q {
namespace {

class MachineTest : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = root_.path() / path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  testing_support::TempFolder root_;
};

TEST_F(MachineTest, ReadsWhatTheSystemSays) {
  std::string cpus;
  for (int i = 0; i < 8; ++i) {  // two packages of two cores with two threads each
    cpus += fmt::format(
        "processor\t: {}\nmodel name\t: Example CPU: 9000\nphysical id\t: {}\ncore id\t\t: {}\n"
        "flags\t\t: fpu avx2 fma\nbugs\t\t:\n\n",
        i, i / 4, i % 2);
  }
  write("proc/cpuinfo", cpus);
  write("proc/meminfo", "MemTotal:       2048 kB\nMemFree: 1 kB\nMemAvailable:    512 kB\n");
  write("sys/fs/cgroup/memory.max", "1048576\n");
  write("sys/devices/system/node/node0/x", "");
  write("sys/devices/system/node/node1/x", "");
  write("sys/devices/system/node/possible", "0-1");
  write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
  const Machine machine = read_machine(root_.path());
  EXPECT_EQ(machine.cpu, "Example CPU: 9000");
  EXPECT_THAT(machine.cpu_flags, testing::ElementsAre("fpu", "avx2", "fma"));
  EXPECT_EQ(machine.n_processors, 8U);
  EXPECT_EQ(machine.n_cores, 4U);
  EXPECT_EQ(machine.n_numa_nodes, 2U);
  EXPECT_EQ(machine.memory_total, 2048U << 10);
  EXPECT_EQ(machine.memory_available, 512U << 10);
  EXPECT_EQ(machine.memory_limit, 1048576U);
  EXPECT_EQ(machine.huge_pages, "madvise");
  EXPECT_EQ(machine.governor, "powersave");
}

TEST_F(MachineTest, WhatIsMissingStaysEmpty) {
  write("sys/fs/cgroup/memory.max", "max\n");
  write("sys/kernel/mm/transparent_hugepage/enabled", "] always [");
  write("proc/cpuinfo", ":\nprocessor\t: 0\nmodel name:\n");
  const Machine machine = read_machine(root_.path());
  EXPECT_EQ(machine.cpu, "");
  EXPECT_EQ(machine.n_cores, 1U);
  EXPECT_EQ(machine.n_numa_nodes, 1U);
  EXPECT_EQ(machine.memory_total, 0U);
  EXPECT_EQ(machine.memory_limit, 0U);
  EXPECT_EQ(machine.huge_pages, "");
}

TEST(MachineTestHere, AgreesWithTheSystem) {
  const Machine machine = read_machine();
  EXPECT_EQ(machine.n_processors, static_cast<uint32_t>(sysconf(_SC_NPROCESSORS_ONLN)));
  EXPECT_LE(machine.n_usable, machine.n_processors);
  EXPECT_LE(machine.n_cores, machine.n_processors);
  EXPECT_LE(machine.memory_available, machine.memory_total);
  Exec exec(2);
  const double rate = testing_support::value_of(read_bandwidth(exec, uint64_t{8} << 20));
  EXPECT_GT(rate, 1e7);   // slower than any memory
  EXPECT_LT(rate, 1e14);  // faster than any cache
}

}  // namespace
}  // namespace hf2q
