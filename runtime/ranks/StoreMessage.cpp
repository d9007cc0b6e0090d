#include "runtime/ranks/StoreMessage.h"

#include <algorithm>

using namespace meshc;
using namespace meshc::runtime;

static void append(std::string &bytes, uint64_t value, size_t count) {
  for (size_t i = 0; i < count; ++i)
    bytes += char(value >> (8 * i));
}

static uint64_t read(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    value |= uint64_t(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return value;
}

MessageWriter::MessageWriter(StoreMessage kind, uint32_t request)
    : frame(4, '\0') {
  frame += char(kind);
  append(frame, request, 4);
}

MessageWriter &MessageWriter::number(uint64_t value) {
  append(frame, value, 8);
  return *this;
}

MessageWriter &MessageWriter::text(std::string_view value) {
  append(frame, value.size(), 4);
  frame += value;
  return *this;
}

MessageWriter &MessageWriter::error(const runtime::Error &value) {
  return number(uint64_t(value.code)).text(value.message).text(value.note);
}

std::string MessageWriter::finish() {
  const size_t size = frame.size() - 4;
  for (size_t i = 0; i < 4; ++i)
    frame[i] = char(size >> (8 * i));
  return std::move(frame);
}

MessageReader::MessageReader(std::string_view body) : rest(body) {
  const uint64_t number = read(take(1));
  valid &= number <= uint64_t(StoreMessage::Pong);
  if (valid)
    kind = StoreMessage(number);
  request = uint32_t(read(take(4)));
}

std::string_view MessageReader::take(size_t bytes) {
  if (bytes > rest.size()) {
    valid = false;
    rest = {};
    return {};
  }
  std::string_view taken = rest.substr(0, bytes);
  rest.remove_prefix(bytes);
  return taken;
}

uint64_t MessageReader::number() { return read(take(8)); }

std::string MessageReader::text() {
  return std::string(take(size_t(read(take(4)))));
}

runtime::Error MessageReader::error() {
  const uint64_t number = this->number();
  runtime::Error error;
  switch (number) {
#define MESHC_ERROR(NAME, NUMBER, EXIT, EXPLANATION)                           \
  case NUMBER:                                                                 \
    error.code = ErrorCode::NAME;                                              \
    break;
#include "runtime/exec/ErrorCodes.def"
  default:
    valid = false;
  }
  error.message = text();
  error.note = text();
  return error;
}

std::optional<std::string>
runtime::takeFrame(std::string &received, uint32_t maxBytes, bool &tooLong) {
  if (received.size() < 4)
    return std::nullopt;
  const uint64_t size = read(std::string_view(received).substr(0, 4));
  if (size > maxBytes) {
    tooLong = true;
    return std::nullopt;
  }
  if (received.size() - 4 < size)
    return std::nullopt;
  std::string body = received.substr(4, size);
  received.erase(0, 4 + size);
  return body;
}
