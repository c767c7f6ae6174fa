#include "core/compare/comparison.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "app/commands.h"
#include "app/ranks.h"
#include "core/engine/backend.h"
#include "core/parallel/together.h"
#include "core/report/grid_roles.h"
#include "core/train/session.h"

namespace octachoron {

namespace {

constexpr std::int64_t kSteps = 10;

std::string key_of(const std::string& override) {
  return override.substr(0, override.find('='));
}

// A variant wins over --set, which wins over the file.
Variant read_variant(const CommandLine& line, const std::string& text_of_variant) {
  const VariantSpec spec = parse_variant(text_of_variant);
  CommandLine own = line;
  for (const std::string& override : spec.overrides)
    std::erase_if(own.overrides, [&](const std::string& set) { return key_of(set) == key_of(override); });
  own.overrides.insert(own.overrides.end(), spec.overrides.begin(), spec.overrides.end());
  try {
    return {spec.name, read_parameters(own, 0)};
  } catch (const Error& error) {
    fail(error.status(), "variant '", spec.name, "': ", error.what());
  }
}

void plan(const Variant& variant) {
  try {
    DryBackend backend(variant.parameters);
    const Target target{grid_of(variant.parameters), &backend.device(), &backend.recipe()};
    const GridRoles roles = grid_roles(
        target.grid, [&](int rank) { return build_rank_programs(variant.parameters, target, rank, Casts::apart); });
    const std::vector<std::string> problems = verify_roles(target.grid, roles).problems;
    if (!problems.empty())
      fail(ExitStatus::internal, "its program is not verified (", problems.front(),
           "); report this with the parameter file");
  } catch (const Error& error) {
    fail(error.status(), "variant '", variant.name, "': ", error.what());
  }
}

std::vector<Variant> read_variants(const CommandLine& line, const World& world) {
  std::vector<Variant> variants;
  for (const std::string& each : line.variants) variants.push_back(read_variant(line, each));
  refuse_incomparable(variants, world.size());
  if (world.rank() == 0) std::for_each(variants.begin(), variants.end(), plan);
  return variants;
}

void write(const std::string& file, const std::string& contents) {
  if (!(std::ofstream(file) << contents << std::flush))
    fail(ExitStatus::usage, "the comparison cannot be written to '", file,
         "' (it cannot be opened, or the disk is full); name a file in a writable folder");
}

void make_output(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    fail(ExitStatus::usage, "the folder '", folder, "' cannot be made (", error.message(),
         "); name another with --output");
}

void write_files(const CommandLine& line, const Comparison& comparison) {
  const std::string json = comparison_json(comparison);
  if (!line.json.empty()) write(line.json, json);
  if (line.output.empty()) return;
  write(line.output + "/compare.json", json);
  write(line.output + "/compare.txt", comparison_text(comparison));
}

}  // namespace

ExitStatus run_compare(const CommandLine& line) {
  return run_on_ranks([&](const World& world) {
    const std::vector<Variant> variants = together(world, [&] {
      std::vector<Variant> read = read_variants(line, world);
      if (world.rank() == 0 && !line.output.empty()) make_output(line.output);
      return read;
    });
    const std::int64_t steps = line.steps > 0 ? line.steps : kSteps;
    const Comparison comparison = compare_variants(world, variants, steps, observe_on(world));
    if (world.rank() == 0) std::fputs(comparison_text(comparison).c_str(), stdout);
    return together(world, [&] {
      if (world.rank() == 0) write_files(line, comparison);
      return ExitStatus::done;
    });
  });
}

}  // namespace octachoron
