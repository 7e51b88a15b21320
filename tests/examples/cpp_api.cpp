/* SPDX-License-Identifier: Apache-2.0 */
/* cpp_api.cpp - the C++ API in one page: as v1_api.c, with an engine thread, or through
 * a tentd with TENT_ENGINE=unix:/path. */
#include <cstring>
#include <iostream>
#include <tent/tent.hpp>

int main()
{
	try {
		tent::Engine engine = tent::Engine::create().value();
		tent::Buffer memory = engine.allocate(8192).value();
		tent::Batch batch = engine.allocate_batch(1).value();
		tent::Request write;

		std::strcpy(memory.as<char>(), "a KV block");
		write.opcode = tent::Opcode::WRITE;
		write.source = memory.data();
		write.target_offset = memory.address() + 4096;
		write.length = 4096;
		write.intent.intent_type = tent::IntentType::CHECKPOINT;
		batch.submit(write).check();
		batch.wait().value();
		batch.outcome().check();
		std::cout << "status 4: " << memory.as<char>() + 4096 << '\n';
		return 0;
	} catch (const tent::Error &error) {	/* thrown by value() and check() only */
		std::cerr << error.what() << '\n';
		return 1;
	}
}
