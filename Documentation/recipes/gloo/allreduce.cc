// SPDX-License-Identifier: GPL-2.0-or-later
// A sum over all ranks by gloo: allreduce verbs|ipoib RANK RANKS DIRECTORY ROUNDS
// Ranks find each other by files in DIRECTORY. "begun" appears there after ten rounds.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/ibverbs/device.h>
#include <gloo/transport/tcp/device.h>

static constexpr int COUNT = 1 << 18;	// 1 MiB

static std::shared_ptr<gloo::transport::Device> open_device(const std::string &transport)
{
	if (transport == "verbs")
		return gloo::transport::ibverbs::CreateDevice({"ohca_0", 1, 0});
	gloo::transport::tcp::attr attr;
	attr.iface = "ib0";
	return gloo::transport::tcp::CreateDevice(attr);
}

static int job(const std::string &transport, int rank, int ranks, const std::string &dir, int rounds)
{
	auto device = open_device(transport);
	auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
	gloo::rendezvous::FileStore store(dir);
	std::vector<int> data(COUNT);

	context->setTimeout(std::chrono::seconds(20));
	context->connectFullMesh(store, device);
	gloo::AllreduceRingChunked<int> sum(context, {data.data()}, COUNT);
	for (int round = 0; round < rounds; round++) {
		for (int i = 0; i < COUNT; i++)
			data[i] = (rank + 1) * (i ^ round);
		sum.run();
		for (int i = 0; i < COUNT; i++) {
			if (data[i] != ranks * (ranks + 1) / 2 * (i ^ round)) {
				std::cout << "rank " << rank << ": round " << round << ": the sum is wrong" << std::endl;
				std::_Exit(2);
			}
		}
		if (!rank && round == 10)
			std::ofstream(dir + "/begun") << round;
	}
	std::cout << "rank " << rank << ": " << rounds << " sums of " << ranks << " ranks are right" << std::endl;
	// What a rank still has to send is lost if it ends now, and gloo aborts if its buffers are freed.
	store.set("done" + std::to_string(rank), {'1'});
	for (int r = 0; r < ranks; r++)
		store.wait({"done" + std::to_string(r)}, std::chrono::seconds(60));
	std::_Exit(0);
}

int main(int argc, char **argv)
{
	if (argc != 6)
		return 2;
	try {
		return job(argv[1], atoi(argv[2]), atoi(argv[3]), argv[4], atoi(argv[5]));
	} catch (const std::exception &e) {
		std::cout << "rank " << argv[2] << ": " << e.what() << std::endl;
		std::_Exit(1);
	}
}
