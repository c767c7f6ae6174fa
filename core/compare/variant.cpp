#include "core/compare/variant.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "core/base/error.h"
#include "core/config/parameter_file.h"

namespace octachoron {

namespace {

void refuse_name(const std::string& name) {
  const auto legal = [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '_' || c == '-'; };
  if (!name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), legal)) return;
  fail(ExitStatus::usage, "--variant: '", name, "' is no name (legal: 1 to 64 of A-Z a-z 0-9 . _ -); ",
       "write --variant 'NAME;section.key=value'");
}

std::vector<std::string> read_overlay(const std::string& file) {
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream contents;
  if (stream.peek() != std::char_traits<char>::eof()) contents << stream.rdbuf();
  if (!stream.is_open() || stream.bad())
    fail(ExitStatus::usage, "--variant: cannot read '", file, "' (", std::strerror(errno),
         "); check the path");
  std::vector<std::string> overrides;
  for (const ParameterLine& line : tokenize(contents.str(), file))
    overrides.push_back(line.key + "=" + line.value);
  return overrides;
}

bool begins_with_any(const std::string& key, const std::vector<const char*>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const char* prefix) { return key.starts_with(prefix); });
}

void refuse_difference(const Variant& reference, const Variant& variant) {
  for (const ParameterInfo& info : parameter_table()) {
    static const std::vector<const char*> common = {
        "run.seed",       "batch.global",   "data.train",           "data.format",
        "model.family",   "model.layers",   "model.hidden",         "model.heads",
        "model.ffn",      "model.vocab",    "model.sequence",       "model.kv_heads",
        "model.head_dim", "model.qkv_bias", "model.tie_embeddings", "model.init_std"};
    if (std::find(common.begin(), common.end(), info.key) == common.end()) continue;
    const std::string here = info.get(variant.parameters), there = info.get(reference.parameters);
    if (here != there)
      fail(ExitStatus::usage, "variant '", variant.name, "' cannot be compared (", info.key, " = ", here,
           ", but ", there, " in '", reference.name,
           "': seed, data, model and global batch must be one); leave it out");
  }
}

}  // namespace

VariantSpec parse_variant(const std::string& text) {
  VariantSpec spec;
  std::istringstream parts(text);
  std::getline(parts, spec.name, ';');
  if (const std::size_t equals = spec.name.find('='); equals != std::string::npos) {
    spec.overlay = spec.name.substr(equals + 1);
    spec.name.resize(equals);
  }
  refuse_name(spec.name);
  if (!spec.overlay.empty()) spec.overrides = read_overlay(spec.overlay);
  for (std::string part; std::getline(parts, part, ';');)
    if (part.find_first_not_of(" \t") != std::string::npos) spec.overrides.push_back(part);
  return spec;
}

void refuse_incomparable(const std::vector<Variant>& variants, int ranks) {
  if (variants.size() < 2)
    fail(ExitStatus::usage, "compare is given ", variants.size(),
         variants.size() == 1 ? " variant" : " variants",
         " (the first is the reference, the others are compared with it); add --variant "
         "'NAME;section.key=value'");
  for (std::size_t v = 0; v < variants.size(); ++v) {
    const Variant& variant = variants[v];
    for (std::size_t other = 0; other < v; ++other)
      if (variants[other].name == variant.name)
        fail(ExitStatus::usage, "two variants are called '", variant.name,
             "' (a name says which is meant); rename one");
    const GridParameters& grid = variant.parameters.grid;
    const int needed = grid.dp * grid.tp * grid.pp * grid.cp;
    if (needed > ranks)
      fail(ExitStatus::usage, "variant '", variant.name, "' needs ", needed,
           " ranks (its grid is dp=", grid.dp, " tp=", grid.tp, " pp=", grid.pp, " cp=", grid.cp,
           ", the launch has ", ranks, " ranks); start with mpirun -np ", needed);
    if (variant.parameters.example.pattern != ExamplePattern::none)
      fail(ExitStatus::usage, "variant '", variant.name,
           "' cannot be compared (example.pattern is set, and an example has no loss); remove it");
    refuse_difference(variants.front(), variant);
  }
}

std::vector<std::string> changed_keys(const Parameters& a, const Parameters& b) {
  static const std::vector<const char*> silent = {"run.",         "backend.plugin_path",  "backend.comm",
                                                  "data.validat", "checkpoint.",          "trace.",
                                                  "engine.",      "optimizer.decay_steps"};
  std::vector<std::string> keys;
  for (const ParameterInfo& info : parameter_table())
    if (info.get(a) != info.get(b) && !begins_with_any(info.key, silent)) keys.push_back(info.key);
  for (const auto* side : {&a, &b})
    for (const auto& [key, value] : side->plugin) {
      const auto here = a.plugin.find(key), there = b.plugin.find(key);
      const bool same = here != a.plugin.end() && there != b.plugin.end() && here->second == there->second;
      const std::string full = "plugin." + key;
      if (!same && std::find(keys.begin(), keys.end(), full) == keys.end()) keys.push_back(full);
    }
  return keys;
}

bool is_split_only(const std::vector<std::string>& keys) {
  return std::all_of(keys.begin(), keys.end(), [](const std::string& key) {
    return begins_with_any(key, {"grid.", "parallel.", "batch.micro"});
  });
}

}  // namespace octachoron
