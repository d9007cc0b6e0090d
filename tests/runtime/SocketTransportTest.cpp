#include "runtime/ranks/SocketTransport.h"
#include "runtime/ranks/Handshake.h"
#include "tests/runtime/RankThreads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <string>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;

namespace {

/// Counts what comes and goes.
struct Counter : Transport::Listener {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<size_t> received, sent;
  std::string broken;

  void onReceived(size_t token) override { add(received, token); }
  void onSent(size_t token) override { add(sent, token); }
  void onBroken(const Error &error) override {
    std::lock_guard<std::mutex> lock(mutex);
    broken = error.message;
    changed.notify_all();
  }
  void add(std::vector<size_t> &list, size_t token) {
    std::lock_guard<std::mutex> lock(mutex);
    list.push_back(token);
    changed.notify_all();
  }
  bool waitFor(const std::function<bool()> &condition) {
    std::unique_lock<std::mutex> lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(20), condition);
  }
};

TEST(SocketTransportTest, messages_wait_for_their_receives) {
  runRanks(2, [&](Ranks &ranks) {
    Result<std::unique_ptr<Transport>> transport =
        SocketTransport::create(ranks);
    ASSERT_TRUE(transport);
    Counter counter;
    (*transport)->start(counter);
    // More than connections hold: the sender has to wait for the receiver.
    constexpr size_t bytes = size_t(16) << 20;
    std::vector<std::byte> data(3 * bytes);
    if (ranks.isFirst()) {
      for (size_t i = 0; i < data.size(); ++i)
        data[i] = std::byte(i * 31 + i / bytes);
      for (size_t i = 0; i < 3; ++i) {
        const TransportMessage message = {1, uint32_t(i == 2 ? 0 : i),
                                          data.data() + i * bytes, bytes, i};
        (*transport)->send(std::span(&message, 1));
      }
      ASSERT_TRUE(ranks.getStore().barrier("received", 60));
      ASSERT_TRUE(counter.waitFor([&] { return counter.sent.size() == 3; }));
      EXPECT_EQ(counter.sent, (std::vector<size_t>{0, 1, 2}));
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      // Posted in another order than they come; two with one tag in theirs.
      for (size_t i : {0, 2, 1}) {
        const TransportMessage message = {0, uint32_t(i == 2 ? 0 : i),
                                          data.data() + i * bytes, bytes, i};
        (*transport)->receive(std::span(&message, 1));
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
      ASSERT_TRUE(
          counter.waitFor([&] { return counter.received.size() == 3; }));
      EXPECT_EQ(counter.received, (std::vector<size_t>{0, 1, 2}));
      for (size_t i = 0; i < data.size(); ++i)
        ASSERT_EQ(data[i], std::byte(i * 31 + i / bytes)) << i;
      ASSERT_TRUE(ranks.getStore().barrier("received", 60));
    }
    ASSERT_TRUE(ranks.getStore().barrier("done", 60));
    transport->reset();
  });
}

TEST(SocketTransportTest, a_message_of_another_size_breaks_the_connection) {
  runRanks(2, [&](Ranks &ranks) {
    Result<std::unique_ptr<Transport>> transport =
        SocketTransport::create(ranks);
    ASSERT_TRUE(transport);
    Counter counter;
    (*transport)->start(counter);
    std::byte data[8] = {};
    const TransportMessage message = {1 - ranks.getRank(), 3, data,
                                      ranks.isFirst() ? 8u : 4u, 0};
    if (ranks.isFirst()) {
      (*transport)->send(std::span(&message, 1));
    } else {
      (*transport)->receive(std::span(&message, 1));
      EXPECT_TRUE(counter.waitFor([&] { return !counter.broken.empty(); }));
      EXPECT_THAT(counter.broken,
                  testing::HasSubstr("expected 4 bytes, found 8"));
    }
    ASSERT_TRUE(ranks.getStore().barrier("done", 60));
    transport->reset();
  });
}

TEST(SocketTransportTest, those_without_the_key_take_no_place) {
  runRanks(2, [&](Ranks &ranks) {
    if (!ranks.isFirst()) {
      // As rank 1 of this run, with the key that a run has without secrets.
      const Address address =
          *parseAddress("test", *ranks.getStore().get("transport/0", 20));
      Result<Socket> socket = connectTo(address, getDeadline(5));
      ASSERT_TRUE(socket);
      Status refused =
          introduce(*socket, address, ranks.getKey(),
                    {"data of rank 0", "", 1, 2, "", ""}, 5, getDeadline(5));
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.getError().code, ErrorCode::StoreKey);
      // One who does not mind that, and goes on.
      socket = connectTo(address, getDeadline(5));
      ASSERT_TRUE(socket);
      const std::string bytes = MessageWriter(StoreMessage::Hello, 0)
                                    .text("meshc ranks 2")
                                    .text("data of rank 0")
                                    .text("")
                                    .number(1)
                                    .number(2)
                                    .text("")
                                    .text(std::string(32, 'n'))
                                    .text("")
                                    .finish() +
                                MessageWriter(StoreMessage::Proof, 0)
                                    .text(std::string(32, 'p'))
                                    .finish();
      EXPECT_TRUE(sendAll(*socket, std::as_bytes(std::span(bytes))));
      std::string received;
      std::byte byte;
      while (receiveAll(*socket, std::span(&byte, 1), getDeadline(5)))
        received += char(byte);
      // The challenge, and no welcome.
      bool tooLong = false;
      std::optional<std::string> body = takeFrame(received, 4096, tooLong);
      ASSERT_TRUE(body);
      EXPECT_EQ(MessageReader(*body).getKind(), StoreMessage::Challenge);
      EXPECT_EQ(received, "");
    }
    Result<std::unique_ptr<Transport>> transport =
        SocketTransport::create(ranks);
    ASSERT_TRUE(transport);
    Counter counter;
    (*transport)->start(counter);
    std::byte data{7};
    const TransportMessage message = {1 - ranks.getRank(), 3, &data, 1, 0};
    if (ranks.isFirst())
      (*transport)->send(std::span(&message, 1));
    else
      (*transport)->receive(std::span(&message, 1));
    EXPECT_TRUE(counter.waitFor(
        [&] { return counter.sent.size() + counter.received.size() == 1; }));
    ASSERT_TRUE(ranks.getStore().barrier("done", 60));
    transport->reset();
  });
}

TEST(SocketTransportTest, strangers_are_turned_away) {
  runRanks(2, [&](Ranks &ranks) {
    std::vector<Socket> strangers;
    if (!ranks.isFirst()) {
      Result<std::string> text = ranks.getStore().get("transport/0", 20);
      ASSERT_TRUE(text);
      Result<Address> address = parseAddress("test", *text);
      ASSERT_TRUE(address);
      EXPECT_EQ(address->host, "127.0.0.1");
      for (const std::string &bytes :
           {std::string("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" +
                        std::string(100, ' ')),
            std::string(48, '\0'), std::string()}) {
        Result<Socket> socket = connectTo(*address, getDeadline(5));
        ASSERT_TRUE(socket);
        EXPECT_TRUE(sendAll(*socket, std::as_bytes(std::span(bytes))));
        strangers.push_back(std::move(*socket));
      }
    }
    Result<std::unique_ptr<Transport>> transport =
        SocketTransport::create(ranks);
    EXPECT_TRUE(transport);
    ASSERT_TRUE(ranks.getStore().barrier("done", 60));
  });
}

} // namespace
