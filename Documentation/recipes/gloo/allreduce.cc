// SPDX-License-Identifier: GPL-2.0-or-later
// Sums over all ranks by gloo: allreduce verbs|ipoib RANK RANKS DIRECTORY ROUNDS BYTES...
// ROUNDS sums of each number of bytes, each cut among all adapters. Ranks find each other by files
// in DIRECTORY. The file "rounds" there has the number of the last round by tens.
#include <cstdlib>
#include <fstream>
#include <future>
#include <iostream>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/ibverbs/device.h>
#include <gloo/transport/tcp/device.h>

using Sum = gloo::AllreduceRingChunked<uint8_t>;

static std::vector<std::shared_ptr<gloo::transport::Device>> open_devices(const std::string &transport)
{
	std::vector<std::shared_ptr<gloo::transport::Device>> devices;

	if (transport == "verbs") {
		for (const auto &name : gloo::transport::ibverbs::getDeviceNames())
			devices.push_back(gloo::transport::ibverbs::CreateDevice({name, 1, 0}));
	} else {
		gloo::transport::tcp::attr attr;
		attr.iface = "ib0";
		devices.push_back(gloo::transport::tcp::CreateDevice(attr));
	}
	return devices;
}

static uint8_t value(uint32_t i, uint32_t round)
{
	return i ^ i >> 8 ^ i >> 16 ^ i >> 24 ^ round;
}

// Adds up one part of the data on each rail, at the same time. An exception of one ends all.
static void run(const std::vector<Sum *> &parts)
{
	std::vector<std::future<void>> running;

	for (Sum *part : parts)
		running.push_back(std::async(std::launch::async, [part] { part->run(); }));
	for (auto &one : running)
		one.get();
}

static int job(const std::string &transport, int rank, int ranks, const std::string &dir, int rounds,
	       const std::vector<size_t> &sizes)
{
	gloo::rendezvous::FileStore store(dir);
	std::vector<std::shared_ptr<gloo::rendezvous::Context>> rails;

	for (auto &device : open_devices(transport)) {
		auto rail = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
		gloo::rendezvous::PrefixStore names("rail" + std::to_string(rails.size()), store);
		rail->setTimeout(std::chrono::seconds(20));
		rail->connectFullMesh(names, device);
		rails.push_back(rail);
	}
	for (size_t size : sizes) {
		std::vector<uint8_t> &data = *new std::vector<uint8_t>(size);
		std::vector<Sum *> parts;
		// gloo aborts if buffers are freed that it still uses for sends or notifications
		for (size_t r = 0; r < rails.size(); r++) {
			size_t begin = size * r / rails.size(), end = size * (r + 1) / rails.size();
			if (begin < end)
				parts.push_back(new Sum(rails[r], {&data[begin]}, end - begin));
		}
		for (int round = 0; round < rounds; round++) {
			for (size_t i = 0; i < size; i++)
				data[i] = (rank + 1) * value(i, round);
			run(parts);
			for (size_t i = 0; i < size; i++) {
				if (data[i] != uint8_t(ranks * (ranks + 1) / 2 * value(i, round))) {
					std::cout << "rank " << rank << ": round " << round << ": the sum of "
						  << size << " bytes is wrong at " << i << std::endl;
					std::_Exit(2);
				}
			}
			if (!rank && round && round % 10 == 0)
				std::ofstream(dir + "/rounds") << round;
		}
	}
	std::cout << "rank " << rank << ": " << rounds * sizes.size() << " sums of " << ranks
		  << " ranks are right" << std::endl;
	// Data that a rank still has to send is lost if the rank exits now.
	store.set("done" + std::to_string(rank), {'1'});
	for (int r = 0; r < ranks; r++)
		store.wait({"done" + std::to_string(r)}, std::chrono::seconds(60));
	std::_Exit(0);
}

int main(int argc, char **argv)
{
	std::vector<size_t> sizes;

	if (argc < 7)
		return 2;
	for (int i = 6; i < argc; i++)
		sizes.push_back(std::strtoul(argv[i], nullptr, 10));
	try {
		return job(argv[1], atoi(argv[2]), atoi(argv[3]), argv[4], atoi(argv[5]), sizes);
	} catch (const std::exception &e) {
		std::cout << "rank " << argv[2] << ": " << e.what() << std::endl;
		std::_Exit(1);
	}
}
