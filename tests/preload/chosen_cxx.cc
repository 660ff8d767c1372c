// SPDX-License-Identifier: MIT
// chosen_cxx.cc - a class whose mutex is a member: on the heap, and in a static object.
#include <cstdio>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace store {
class Table {
  public:
    void add() {
        std::lock_guard<std::mutex> lock(mutex_);
        rows_++;
    }
    long rows() const { return rows_; }

  private:
    long rows_ = 0;
    std::mutex mutex_;
};
}  // namespace store

static store::Table fixed;
static std::mutex other;
static long others;

__attribute__((noinline)) static void count_other() {
    std::lock_guard<std::mutex> lock(other);
    others++;
}

int main() {
    auto made = std::make_unique<store::Table>();
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([&] {
            for (int k = 0; k < 10000; k++) {
                fixed.add();
                made->add();
                count_other();
            }
        });
    }
    for (auto &t : threads) t.join();
    std::printf("%ld %ld %ld\n", fixed.rows(), made->rows(), others);
}
