// What an op costs in Ceph's C++ library dmclock, beside `cargo bench -p qos`: the same pattern, with the same promises.
//
// Each of some number of clients has two ops queued; one goes out, the next of that client comes in. Costs are 1 to 4 units
// where those of benches/schedulers.rs are 1 to 4.75, as this library's are whole numbers.
//
// With a checkout of github.com/ceph/dmclock in $DMCLOCK (`boost` here stands in where Boost is not installed):
//
//   I="-I . -I $DMCLOCK/src -I $DMCLOCK/support/src"
//   C="$DMCLOCK/src/dmclock_util.cc $DMCLOCK/support/src/run_every.cc"
//   g++ -std=c++17 -O3 -march=native -DNDEBUG $I main.cc $C -pthread -o /tmp/dmclock && /tmp/dmclock
#include "dmclock_server.h"
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace dmc = crimson::dmclock;

struct Op { uint64_t client; };

// splitmix64: any generator does, as long as it is cheap.
struct Rng {
  uint64_t state;
  uint64_t below(uint64_t n) {
    uint64_t z = (state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return (z ^ (z >> 31)) % n;
  }
};

template <bool Delayed>
double run(uint64_t clients, bool promised, uint64_t ops) {
  // A device of a million small ops a second, half of it reserved.
  const double capacity = 1e6, mean = capacity / 2 / clients;
  Rng rng{clients};
  std::vector<std::unique_ptr<dmc::ClientInfo>> infos;
  for (uint64_t n = 0; n < clients; n++) {
    double each = mean * (50 + rng.below(100)) / 100.0;
    infos.push_back(promised ? std::make_unique<dmc::ClientInfo>(each * 0.9, 1.0, each * 4.0)
                             : std::make_unique<dmc::ClientInfo>(0.0, 1.0, 0.0));
  }
  using Queue = dmc::PullPriorityQueue<uint64_t, Op, Delayed>;
  Queue queue([&](const uint64_t& client) { return infos[client].get(); });
  double now = 1000.0;
  auto add = [&](uint64_t client) {
    queue.add_request_time(Op{client}, client, dmc::ReqParams(1, 1), now, dmc::Cost(1 + rng.below(16) / 4));
  };
  for (uint64_t n = 0; n < 2 * clients; n++) add(n % clients);
  auto one = [&] {
    for (;;) {
      now += 1e-6;
      auto pulled = queue.pull_request(now);
      if (pulled.is_retn()) return add(pulled.get_retn().client);
      if (pulled.is_none()) abort();
      now = pulled.getTime();
    }
  };
  for (uint64_t n = 0; n < 8 * clients; n++) one();
  auto began = std::chrono::steady_clock::now();
  for (uint64_t n = 0; n < ops; n++) one();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - began).count() / ops;
}

int main() {
  const uint64_t ops = 300000;
  for (uint64_t clients : {1ull, 100ull, 10000ull})
    for (bool promised : {false, true}) {
      std::vector<double> at_once, delayed;
      for (int round = 0; round < 9; round++) {
        at_once.push_back(run<false>(clients, promised, ops));
        delayed.push_back(run<true>(clients, promised, ops));
      }
      auto median = [](std::vector<double>& all) { std::sort(all.begin(), all.end()); return all[all.size() / 2]; };
      std::printf("dmclock, %s, %llu clients: %.0f ns an op with tags at once, %.0f with delayed tags\n",
                  promised ? "each with a reservation and a limit" : "weights alone", (unsigned long long)clients,
                  median(at_once), median(delayed));
      std::fflush(stdout);
    }
}
