#include "runtime/exec/PlanIds.h"

#include "runtime/exec/Executable.h"
#include "runtime/exec/kinds/CommandKind.h"

#include <fmt/format.h>
#include <sodium.h>

#include <array>

using namespace meshc;

bool runtime::isMessage(const exec::CommandT &command) {
  const exec::CollectiveT *collective = command.action.AsCollective();
  return collective && collective->kind != exec::CollectiveKind::slice;
}

std::vector<std::vector<std::string>>
runtime::getPlanIds(const exec::ProgramT &program,
                    std::span<const int> sources) {
  std::vector<std::vector<std::string>> ids;
  size_t count = 0;
  std::vector<size_t> first; // iteration, by source: these come in order
  for (const auto &command : program.commands) {
    const size_t number = ids.size();
    if (!sources.empty()) {
      const auto source = size_t(sources[number]);
      if (source < first.size()) {
        ids.push_back(std::vector<std::string>(ids[first[source]]));
        continue;
      }
      first.push_back(number);
    }
    std::vector<std::string> &own = ids.emplace_back();
    if (!isMessage(*command))
      own.push_back(fmt::format("o{}", count));
    else
      for (const exec::CollectiveT *member :
           getMembers(*command->action.AsCollective()))
        own.push_back(member->id);
    count += own.size();
  }
  return ids;
}

const char *runtime::getPlanKind(const exec::CommandT &command) {
  const exec::CollectiveT *collective = command.action.AsCollective();
  return collective ? exec::EnumNameCollectiveKind(collective->kind)
                    : getKind(command).name;
}

std::string runtime::describeLayout(const exec::ExecutableT &executable) {
  std::vector<std::string> rules;
  for (const auto &rule : executable.rules)
    rules.push_back(rule->text);
  return rules.empty() ? "nothing is split"
                       : fmt::format("{}", fmt::join(rules, ", "));
}

std::string runtime::getPlanDigest(const exec::ExecutableT &executable,
                                   const exec::ProgramT &program,
                                   std::span<const int> sources) {
  std::string text = "mesh";
  for (const auto &axis : executable.mesh->axes)
    text += fmt::format(" {}={}", axis->name, axis->size);
  text += "\n";
  const std::vector<std::vector<std::string>> ids =
      getPlanIds(program, sources);
  int numSources = 0;
  for (size_t i = 0; i < program.commands.size(); ++i) {
    if (!sources.empty() && sources[i] < numSources)
      continue;
    ++numSources;
    const exec::CommandT &command = *program.commands[i];
    const char *kind = getPlanKind(command);
    const char *phase = exec::EnumNamePhase(command.phase);
    if (!isMessage(command)) {
      text += fmt::format("{} {} {} {} {}\n", ids[i][0], kind, phase,
                          command.flops, command.bytes);
      continue;
    }
    const auto members = getMembers(*command.action.AsCollective());
    for (size_t member = 0; member < members.size(); ++member)
      text += fmt::format("{} {} {} {} {}\n", ids[i][member], kind, phase,
                          members[member]->payload_bytes,
                          members[member]->wire_bytes);
  }
  std::array<unsigned char, crypto_hash_sha256_BYTES> hash{};
  crypto_hash_sha256(hash.data(),
                     reinterpret_cast<const unsigned char *>(text.data()),
                     text.size());
  return fmt::format("{:02x}", fmt::join(hash, ""));
}
