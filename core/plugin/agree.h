#pragma once
/// Loading is collective: a plugin that one rank cannot use is refused by all of them, with one text.
#include <string>

#include "core/plugin/library.h"

namespace octachoron {

/// Collective over all ranks of the run. Returns if no rank failed and all ranks hold the same identity.
/// \param failure this rank's sentence, empty if it succeeded
/// \param identity what must be equal on all ranks, see identity()
/// \param status exit status of this rank's failure; that of the lowest failing rank counts
/// \throws Error on all ranks alike: the sentence of the lowest failing rank, or one that names two different
/// identities
void agree(const oct_host& host, const std::string& failure, const std::string& identity,
           ExitStatus status = ExitStatus::environment);

/// "comm mpi 0.1.0, built with g++ 12.2.0": family, name, version and build.
std::string identity(const oct_plugin& plugin);

/// find_plugin() and PluginLibrary() on all ranks, then agree().
PluginLibrary load_together(const oct_host& host, oct_family family, const std::string& name_or_path,
                            const std::string& plugin_path);

}  // namespace octachoron
