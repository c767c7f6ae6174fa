#include "core/base/text.h"
#include "core/config/availability.h"
#include "core/config/parameter_file.h"
#include "core/config/values.h"

namespace octachoron {

namespace {

std::string cell(const std::string& content) {
  std::string result;
  for (char c : content)
    result += c == '|' ? std::string("\\|") : c == '<' ? std::string("&lt;") : std::string(1, c);
  return result;
}

}  // namespace

std::string parameter_documentation() {
  std::string result =
      "# Parameters\n\n"
      "Generated from the table in the code by `ninja -C build octachoron_parameter_docs`; do not edit.\n\n"
      "A parameter file has sections `[section]` and lines `key = value`. `#` and `;` begin a comment at the "
      "start of\n"
      "a line or after a blank. Switches are `on` or `off`; lists are separated by commas; relative paths "
      "start from\n"
      "the working directory. `--set section.key=value` on the command line wins over the file. Unknown and "
      "repeated\n"
      "keys are refused. A plugin's own keys stand in `[plugin.NAME]`; the plugin checks them.\n";
  std::string section;
  for (const ParameterInfo& info : parameter_table()) {
    const std::string its_section = info.key.substr(0, info.key.find('.'));
    if (its_section != section) {
      section = its_section;
      result +=
          "\n## [" + section + "]\n\n| key | unit | default | legal | meaning |\n|---|---|---|---|---|\n";
    }
    const std::string fallback = info.default_text == "required" ? "**required**" : cell(info.default_text);
    result += text("| ", info.key, " | ", cell(info.unit), " | ", fallback, " | ", cell(info.legal), " | ",
                   cell(info.help), " |\n");
  }
  result +=
      "\n## Not available in this version\n\nOther values of these keys are refused.\n\n"
      "| key | available | the rest is |\n|---|---|---|\n";
  for (const Availability& row : availability_table())
    result += text("| ", row.key, " | ", row.available.front().empty() ? "empty" : join(row.available, ", "),
                   " | ", row.feature, " |\n");
  return result;
}

}  // namespace octachoron
