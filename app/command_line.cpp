#include "app/command_line.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <limits>
#include <sstream>

#include "app/command_table.h"
#include "core/base/version.h"
#include "core/config/suggest.h"
#include "core/config/values.h"

namespace octachoron {

namespace {

namespace po = boost::program_options;

std::string first_word(const std::string& name) {
  return name.substr(0, name.find(' '));
}

const CommandSpec* find_command(const std::string& name) {
  for (const CommandSpec& spec : command_table())
    if (spec.name == name) return &spec;
  return nullptr;
}

/// First words, or the second words of the commands of `group`; of all commands or of those there are in this
/// version.
std::vector<std::string> command_names(const std::string& group, bool all) {
  std::vector<std::string> names;
  for (const CommandSpec& spec : command_table()) {
    if (!all && !spec.available) continue;
    const std::string word = first_word(spec.name);
    if (group.empty() && (names.empty() || names.back() != word)) names.push_back(word);
    if (!group.empty() && word == group) names.push_back(spec.name.substr(group.size() + 1));
  }
  return names;
}

bool is_group(const std::string& word) {
  return std::any_of(command_table().begin(), command_table().end(),
                     [&](const CommandSpec& spec) { return spec.name.starts_with(word + " "); });
}

/// Options that later versions bring are parsed too, so that they can be refused by name, but not shown.
po::options_description describe(const CommandSpec& spec, bool all) {
  po::options_description options("options");
  options.add_options()("help,h", "print this and exit");
  for (const OptionSpec& option : spec.options) {
    if (!all && !option.available) continue;
    if (option.argument.empty())
      options.add_options()(option.name.c_str(), option.help.c_str());
    else
      options.add_options()(option.name.c_str(),
                            po::value<std::vector<std::string>>()->value_name(option.argument),
                            option.help.c_str());
  }
  return options;
}

[[noreturn]] void refuse_option(const std::string& option, const std::string& command,
                                const po::options_description& known) {
  std::vector<std::string> names;
  for (const auto& each : known.options()) names.push_back(each->long_name());
  const std::size_t begin = option.find_first_not_of('-');
  const std::string bare = begin == std::string::npos ? option : option.substr(begin);
  fail(ExitStatus::usage, "unknown option ", option, " of octachoron ", command, " (see octachoron ", command,
       " --help); did you mean --", nearest_name(bare, names), "?");
}

po::parsed_options parse_options(const CommandSpec& spec, const std::vector<std::string>& arguments,
                                 const po::options_description& known) {
  using namespace po::command_line_style;  // NOLINT: no guessing: an abbreviated option may change its
                                           // meaning
  try {
    return po::command_line_parser(arguments)
        .options(known)
        .style(allow_long | long_allow_adjacent | long_allow_next | allow_short | short_allow_next |
               allow_dash_for_short)
        .run();
  } catch (const po::unknown_option& error) {
    refuse_option(error.get_option_name(), spec.name, known);
  } catch (const po::error& error) {
    fail(ExitStatus::usage, spec.name, ": ", error.what(),
         " (the command line cannot be understood); see octachoron ", spec.name, " --help");
  }
}

/// Values by option name; a switch that is given has one empty value.
using Given = std::vector<std::pair<std::string, std::string>>;

Given given_options(const CommandSpec& spec, const po::parsed_options& parsed) {
  Given given;
  for (const auto& option : parsed.options) {
    if (option.position_key >= 0 || option.string_key == "help") continue;
    const std::string& name = option.string_key;
    const OptionSpec& known = *std::find_if(spec.options.begin(), spec.options.end(),
                                            [&](const OptionSpec& each) { return each.name == name; });
    if (!known.available)
      fail(ExitStatus::usage, "--", name, " of octachoron ", spec.name,
           " is not available in this version (a later one brings it); leave it out");
    const bool twice =
        std::any_of(given.begin(), given.end(), [&](const auto& each) { return each.first == name; });
    if (twice && !known.repeatable)
      fail(ExitStatus::usage, "--", name, " is given twice (octachoron ", spec.name,
           " takes one); remove one of the two");
    given.emplace_back(name, option.value.empty() ? "" : option.value.front());
    if (!known.argument.empty() && given.back().second.empty())
      fail(ExitStatus::usage, "--", name, " has no value (it needs ", known.argument,
           "); give one or leave it out");
  }
  return given;
}

std::int64_t parse_number(const std::string& name, const std::string& value, std::int64_t least,
                          std::int64_t most) {
  const auto number = parse_integer(value);
  if (!number || *number < least || *number > most)
    fail(ExitStatus::usage, "--", name, " '", value, "' is no such number (legal: ", least, " .. ", most,
         "); write --", name, " ", std::max<std::int64_t>(least, 4), ", for example");
  return *number;
}

std::string parse_from(const std::string& value) {
  const std::vector<std::string> legal = {"auto", "text", "u16", "u32", "ids"};
  if (std::find(legal.begin(), legal.end(), value) == legal.end())
    fail(ExitStatus::usage, "--from ", value, " is no format of an input (there are ", join(legal, ", "),
         "); did you mean ", nearest_name(value, legal), "?");
  return value;
}

void take_options(CommandLine& line, const Given& given) {
  for (const auto& [name, value] : given) {
    if (name == "set") line.overrides.push_back(value);
    if (name == "check") line.check = true;
    if (name == "ranks") line.ranks = int(parse_number(name, value, 1, std::numeric_limits<int>::max()));
    if (name == "json") line.json = value;
    if (name == "draw") line.draw = value;
    if (name == "output") line.output = value;
    if (name == "from") line.from = parse_from(value);
    if (name == "vocab") line.vocab = parse_number(name, value, 2, 1 << 24);
    if (name == "separator") line.separator = parse_number(name, value, 0, (1 << 24) - 1);
    if (name == "sequence") line.sequence = parse_number(name, value, 1, 1 << 20);
    if (name == "data") line.data = value;
    if (name == "batches")
      line.batches = parse_number(name, value, 0, std::numeric_limits<std::int64_t>::max());
    if (name == "variant") line.variants.push_back(value);
    if (name == "steps")
      line.steps = parse_number(name, value, 1, std::numeric_limits<std::int64_t>::max());
  }
}

void check_complete(const CommandLine& line, const CommandSpec& spec) {
  const std::size_t count = line.positional.size();
  if (count < spec.least || count > spec.most)
    fail(ExitStatus::usage, spec.name, " is given ", count, count == 1 ? " argument" : " arguments",
         " (it takes ", spec.arguments.empty() ? "none" : spec.arguments, "); see octachoron ", spec.name,
         " --help");
  if (spec.name == "data import" && line.output.empty())
    fail(ExitStatus::usage,
         "data import does not know where to write (--output is missing); add --output FILE");
}

[[noreturn]] void refuse_command(const std::string& word, const std::string& group) {
  fail(ExitStatus::usage, word.starts_with("-") ? "unknown option " : "unknown command ",
       group.empty() ? "" : group + " ", word, " (there are ", join(command_names(group, false), ", "),
       "); did you mean ", word.starts_with("-") ? "--help" : nearest_name(word, command_names(group, true)),
       "?");
}

bool is_help(const std::string& argument) {
  return argument == "--help" || argument == "-h";
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  CommandLine line;
  if (arguments.empty()) return line;
  line.help = is_help(arguments[0]);
  line.version = arguments[0] == "--version";
  if (line.help || line.version) return line;

  std::size_t words = 1;
  line.command = arguments[0];
  if (is_group(line.command)) {
    if (arguments.size() == 1)
      fail(ExitStatus::usage, line.command, " needs to know what to do (it is one of ",
           join(command_names(line.command, false), ", "), "); see octachoron ", line.command, " --help");
    line.help = is_help(arguments[1]);
    if (line.help) return line;
    if (!find_command(line.command + " " + arguments[1])) refuse_command(arguments[1], line.command);
    line.command += " " + arguments[1];
    words = 2;
  }
  const CommandSpec* spec = find_command(line.command);
  if (!spec) refuse_command(line.command, "");
  if (!spec->available)
    fail(ExitStatus::usage, spec->name,
         " is not available in this version (a later one brings it); see octachoron --help for what is");

  const po::options_description known = describe(*spec, true);
  const po::parsed_options parsed =
      parse_options(*spec, {arguments.begin() + std::ptrdiff_t(words), arguments.end()}, known);
  line.help = std::any_of(parsed.options.begin(), parsed.options.end(),
                          [](const auto& option) { return option.string_key == "help"; });
  if (line.help) return line;
  take_options(line, given_options(*spec, parsed));
  line.positional = po::collect_unrecognized(parsed.options, po::include_positional);
  check_complete(line, *spec);
  if (spec->arguments == "PARAMS") {
    line.parameter_file = line.positional.front();
    line.positional.clear();
  }
  return line;
}

CommandLine parse_command_line(int argc, const char* const* argv) {
  return parse_command_line(argc > 1 ? std::vector<std::string>(argv + 1, argv + argc)
                                     : std::vector<std::string>{});
}

std::string usage_text(const std::string& command) {
  std::ostringstream result;
  if (const CommandSpec* spec = find_command(command)) {
    result << "usage: octachoron " << spec->name << (spec->arguments.empty() ? "" : " ") << spec->arguments
           << " [options]\n\n"
           << spec->help << "\n\n"
           << describe(*spec, false);
    if (spec->arguments == "PARAMS")
      result << "\nPARAMS is a parameter file; core/docs/parameters.md explains its keys\n";
    return result.str();
  }
  result << "usage: octachoron " << (command.empty() ? "COMMAND" : command + " COMMAND") << " ...\n\n";
  for (const CommandSpec& spec : command_table()) {
    if (!spec.available || (!command.empty() && first_word(spec.name) != command)) continue;
    std::string synopsis = spec.name + (spec.arguments.empty() ? "" : " ") + spec.arguments;
    synopsis.resize(std::max<std::size_t>(synopsis.size() + 2, 28), ' ');
    result << "  " << synopsis << spec.help << "\n";
  }
  result << "\noctachoron COMMAND --help says more about one; octachoron --version prints the version\n";
  return result.str();
}

std::optional<ExitStatus> answer_without_work(const CommandLine& line, std::ostream& out, std::ostream& err) {
  if (line.version) {
    out << "octachoron " << version() << "\n";
    return ExitStatus::done;
  }
  if (line.help) {
    out << usage_text(line.command);
    return ExitStatus::done;
  }
  if (!line.command.empty()) return std::nullopt;
  err << usage_text("");
  return ExitStatus::usage;
}

}  // namespace octachoron
