#include "runtime/app/ProgramDescription.h"

#include "runtime/cuda/library/SystemReport.h"
#include "runtime/io/FilePattern.h"
#include "runtime/settings/Settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <sstream>

using namespace meshc;
using namespace meshc::runtime;

/// Whether an image is PTX of an architecture without machine code.
static bool isOnlyText(const exec::ExecutableT &data,
                       const exec::GpuImageT &image) {
  return image.kind == exec::ImageKind::ptx &&
         std::none_of(data.images.begin(), data.images.end(),
                      [&](const auto &other) {
                        return other->architecture == image.architecture &&
                               other->kind == exec::ImageKind::cubin;
                      });
}

/// What this machine has to run it on, for GPUs.
static std::string describeMachine(const exec::ExecutableT &data) {
  if (data.target != exec::Target::cuda)
    return "";
  std::string text = "machine\n";
  std::istringstream lines(cuda::reportSystem(&data));
  for (std::string line; std::getline(lines, line);)
    text += fmt::format("  {}\n", line);
  return text;
}

/// What feeds the inputs, as the spec names it.
static std::string describeData(const exec::ExecutableT &data) {
  if (data.data.empty())
    return "";
  std::string text = fmt::format("data over {}\n", data.sample_dim);
  auto describe = [](const std::string &name) {
    return fmt::format("\"{}\"{}", name,
                       isPattern(name) ? ", all that fit" : "");
  };
  for (const auto &source : data.data) {
    text += fmt::format("  {}: {} {}", source->input,
                        exec::EnumNameDataReader(source->reader),
                        describe(source->train));
    if (!source->test.empty())
      text += fmt::format("; test {}", describe(source->test));
    text += "\n";
  }
  return text;
}

/// How parameters change, the rates of optimizers, and the numbers that --set
/// takes.
static std::string describeTraining(const exec::ExecutableT &data) {
  if (!data.training)
    return "";
  const exec::TrainingT &training = *data.training;
  std::string outputs = training.minimize;
  for (const std::string &other : training.others)
    outputs += ", " + other;
  std::string text = fmt::format("training\n  minimizes {}\n  by {}\n", outputs,
                                 training.optimizer);
  if (training.steps > 0)
    text += fmt::format("  for {} steps\n", training.steps);
  else if (training.epochs > 0)
    text += fmt::format("  for {} epochs\n", training.epochs);
  if (training.parts > 1)
    text += fmt::format("  in steps of {} parts\n", training.parts);
  for (const auto &rate : training.rates) {
    text += fmt::format("  {} at step", rate->name);
    for (size_t i = 0; i < rate->steps.size(); ++i)
      text += fmt::format("{} {}: {:.4g}", i ? "," : "", rate->steps[i],
                          rate->values[i]);
    text += "\n";
  }
  const Result<Settings> settings = Settings::create(data);
  for (const bool isFixed : {false, true}) {
    if (!settings)
      break;
    std::string list;
    for (const auto &[name, value] : settings->list(isFixed))
      list += fmt::format("{}{} = {}", list.empty() ? "" : ", ", name,
                          toString(value));
    if (!list.empty())
      text += fmt::format("  {} {}\n",
                          isFixed ? "compiled in:" : "for --set:", list);
  }
  return text;
}

std::string runtime::describeProgram(const Executable &executable) {
  const exec::ExecutableT &data = executable.data;
  std::string text;
  auto add = [&]<typename... Values>(fmt::format_string<Values...> format,
                                     Values &&...values) {
    fmt::format_to(std::back_inserter(text), format,
                   std::forward<Values>(values)...);
  };
  add("model     {}\n", data.model);
  add("producer  {}\n", data.producer);
  std::string mesh;
  for (const layout::MeshAxis &axis : executable.mesh.getAxes())
    mesh += fmt::format("{}{} = {}", mesh.empty() ? "" : ", ", axis.name,
                        axis.size);
  add("mesh      {}\n", mesh.empty() ? "none" : mesh);
  add("devices   {}\n", executable.getNumDevices());
  add("memory    {:.1f} MiB per device\n",
      double(data.arena_bytes) / (1 << 20));
  if (data.training && !data.training->precision.empty())
    add("precision {}\n", data.training->precision);
  switch (data.target) {
  case exec::Target::cpu:
    add("target    cpu\nprocessor {}\n", data.cpu);
    break;
  case exec::Target::cuda:
    add("target    cuda\n");
    for (const auto &image : data.images)
      add("kernels   {}, {}, {:.1f} KiB{}\n", image->architecture,
          exec::EnumNameImageKind(image->kind),
          double(image->data.size()) / 1024,
          isOnlyText(data, *image)
              ? ", which the driver compiles at every start"
              : "");
    break;
  }
  add("dims\n");
  for (const auto &dim : data.dims)
    add("  {} = {}\n", dim->name, dim->size);
  auto addValue = [&](const std::string &name,
                      const exec::TensorLayoutT &layout) {
    std::vector<std::string> dims;
    for (const auto &dim : layout.dims)
      dims.push_back(dim->name);
    add("  {}: {}, {}\n", name, toString(layout),
        layout::toString(executable.mesh, getSharding(layout), dims));
  };
  text += describeData(data) + describeTraining(data);
  add("variables\n");
  for (const auto &variable : data.variables)
    addValue(variable->name, *variable->layout);
  for (const auto &program : data.programs) {
    add("program {}, {} commands\n", program->name, program->commands.size());
    for (const auto &port : program->inputs)
      addValue("in " + port->name, *port->layout);
    for (const auto &port : program->outputs)
      addValue("out " + port->name, *port->layout);
  }
  return text + describeMachine(data);
}
