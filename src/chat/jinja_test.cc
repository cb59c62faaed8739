#include "chat/jinja.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace hf2q::jinja {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

RenderOptions sunday() {
  std::tm now{};
  now.tm_year = 125;
  now.tm_mon = 2;
  now.tm_mday = 9;
  now.tm_yday = 67;
  now.tm_hour = 14;
  now.tm_min = 5;
  now.tm_sec = 6;
  RenderOptions options;
  options.now = now;
  return options;
}

Result<std::string> rendered(std::string_view text,
                             const ordered_json& variables = ordered_json::object(),
                             const Limits& limits = {}) {
  TRY(parsed, Template::parse(text, limits));
  return parsed.render(variables, sunday());
}

std::string error_of(std::string_view text, const Limits& limits = {}) {
  const Result<std::string> result = rendered(text, ordered_json::object(), limits);
  return result.ok() ? "no error: " + result.value().substr(0, 100) : result.error().message;
}

// Templates with the output of Jinja2 3.1 in the environment of transformers.
const ordered_json& cases() {
  static const ordered_json loaded = [] {
    std::ifstream file(HF2Q_TEST_DATA "/jinja_cases.json");
    return ordered_json::parse(file);
  }();
  return loaded;
}

TEST(Jinja, RendersAsTheReferenceImplementation) {
  ASSERT_GT(cases()["cases"].size(), 100U);
  for (const auto& example : cases()["cases"]) {
    const auto text = example["template"].get<std::string>();
    const Result<std::string> result = rendered(text, cases()["context"]);
    ASSERT_TRUE(result.ok()) << text << "\n" << result.error().message;
    EXPECT_EQ(result.value(), example["expected"].get<std::string>()) << text;
  }
}

TEST(Jinja, RefusesWhatTheReferenceImplementationRefuses) {
  ASSERT_GT(cases()["fails"].size(), 30U);
  for (const auto& text : cases()["fails"]) {
    const Result<std::string> result = rendered(text.get<std::string>(), cases()["context"]);
    EXPECT_FALSE(result.ok()) << text << "\n" << result.value();
    if (result.ok()) continue;
    EXPECT_THAT(result.error().message, HasSubstr("line 1")) << text;
  }
}

std::string repeated(std::string_view piece, size_t times) {
  std::string text;
  for (size_t i = 0; i < times; ++i) text += piece;
  return text;
}

TEST(Jinja, GenerationBlocksAreTransparent) {
  const auto result = rendered("a{% generation %}{{ 'b' }}{% endgeneration %}c");
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result.value(), "abc");
}

TEST(Jinja, ErrorsNameTheLineAndTheThing) {
  EXPECT_EQ(error_of("a\n\n{{ raise_exception('roles must alternate') }}"),
            "chat template, line 3: roles must alternate");
  EXPECT_EQ(error_of("{% set x = 1 %}\n{{ x.y.z }}"), "chat template, line 2: \"y\" is undefined");
  EXPECT_EQ(error_of("\n{% for x in y %}"),
            "chat template, line 2: '{% endfor %}' expected, found the end");
  EXPECT_EQ(error_of("{{ 1 | nope }}"), "chat template, line 1: no filter \"nope\"");
  EXPECT_EQ(error_of("{{ 'a'.replace('b') }}"),
            "chat template, line 1: replace: argument 'new' is missing");
  EXPECT_EQ(error_of("{{ 1\n+ 'a' }}"),
            "chat template, line 2: + is not defined between int and str");
}

TEST(Jinja, RefusesTagsThatReachOutside) {
  for (const char* tag : {"include 'x'", "import 'x' as y", "from 'x' import y", "extends 'x'",
                          "block x", "call f()", "do x", "with x = 1", "filter upper"}) {
    EXPECT_THAT(error_of(fmt::format("{{% {} %}}", tag)), HasSubstr("not supported")) << tag;
  }
}

TEST(Jinja, ReachesNoPythonInternals) {
  EXPECT_THAT(error_of("{{ ''.__class__.__mro__[1].__subclasses__() }}"), HasSubstr("undefined"));
  EXPECT_THAT(error_of("{{ range.__globals__['os'].system('id') }}"), HasSubstr("undefined"));
}

TEST(Jinja, NamesWhatItDoesNotHave) {
  for (const char* filter : {"center", "filesizeformat", "pprint", "random", "slice", "truncate",
                             "urlencode", "urlize", "wordwrap", "xmlattr"}) {
    EXPECT_THAT(error_of(fmt::format("{{{{ 'a' | {} }}}}", filter)),
                HasSubstr(fmt::format("no filter \"{}\"", filter)));
  }
  for (const char* method : {"center", "encode", "rfind", "translate", "zfill"}) {
    EXPECT_THAT(error_of(fmt::format("{{{{ 'a'.{}() }}}}", method)),
                HasSubstr(fmt::format("\"{}\" is undefined", method)));
  }
  EXPECT_THAT(error_of("{{ '{0.x}'.format(1) }}"),
              HasSubstr("parts of an argument, as in \"0.x\""));
  EXPECT_THAT(error_of("{{ '{:e}'.format(1.5) }}"), HasSubstr("format: \"e\" is not supported"));
  EXPECT_THAT(error_of("{{ '{:{}}'.format(1, 2) }}"), HasSubstr("a field inside of a field"));
}

TEST(Jinja, StrftimeNowNeedsADateAndKnownConversions) {
  const auto parsed = Template::parse("{{ strftime_now('%Y') }}");
  ASSERT_TRUE(parsed.ok());
  EXPECT_THAT(parsed.value().render(ordered_json::object()).error().message, HasSubstr("no date"));
  EXPECT_THAT(error_of("{{ strftime_now('%999999999d') }}"), HasSubstr("unknown conversion"));
  EXPECT_THAT(error_of("{{ strftime_now('%') }}"), HasSubstr("unknown conversion"));
  EXPECT_EQ(rendered("{{ strftime_now('%-d %b') }}").value(), "9 Mar");
}

TEST(Jinja, IntegersThatLeave64BitsAreErrors) {
  for (const char* text :
       {"{{ 9223372036854775807 + 1 }}", "{{ -9223372036854775807 - 2 }}", "{{ 3 ** 41 }}",
        "{{ 9223372036854775807 * 2 }}", "{{ (-9223372036854775807 - 1) // -1 }}",
        "{{ -(-9223372036854775807 - 1) }}", "{{ 1e300 | int }}", "{{ 2 ** 9223372036854775807 }}",
        "{{ (-9223372036854775807 - 1) | abs }}", "{{ '9e99' | int }}"}) {
    EXPECT_NE(error_of(text), "") << text;
    EXPECT_FALSE(rendered(text).ok()) << text;
  }
  EXPECT_FALSE(rendered("{{ 92233720368547758070 }}").ok());
  EXPECT_EQ(rendered("{{ (-9223372036854775807 - 1) % -1 }}").value(), "0");
}

// Limits that tests reach quickly.
Limits tight() {
  Limits limits;
  limits.max_steps = 200'000;
  limits.max_output_bytes = 1'000'000;
  return limits;
}

TEST(JinjaHostile, NestingIsBounded) {
  const std::pair<const char*, const char*> kBrackets[] = {
      {"(", ")"},  {"[", "]"},           {"{1:", "}"}, {"-", ""},     {"not ", ""}, {"a[", "]"},
      {"f(", ")"}, {"1 if 1 else ", ""}, {"1+", ""},   {"1 or ", ""}, {"1**", ""}};
  for (const auto& [open, close] : kBrackets) {
    const std::string text = "{{ " + repeated(open, 3000) + "1" + repeated(close, 3000) + " }}";
    EXPECT_THAT(error_of(text), HasSubstr("nested more than 200 deep")) << open;
  }
  EXPECT_THAT(error_of("{{ " + repeated("(", 60'000) + "1" + repeated(")", 60'000) + " }}"),
              HasSubstr("nested more than 200 deep"));
  for (const char* chain : {".a", "|trim", "[0]", "()", " is defined"}) {
    EXPECT_FALSE(rendered("{{ x" + repeated(chain, 3000) + " }}").ok()) << chain;
  }
  EXPECT_THAT(error_of(repeated("{% if 1 %}", 3000)), HasSubstr("nested more than"));
  EXPECT_THAT(error_of(repeated("{% for x in y %}", 3000)), HasSubstr("nested more than"));
  EXPECT_THAT(error_of("{% for " + repeated("(", 3000) + repeated(")", 3000) + " %}"),
              HasSubstr("nested more than"));
  EXPECT_THAT(error_of("{{ " + repeated("(", 60'000)), HasSubstr("ends inside a tag"));
}

TEST(JinjaHostile, RecursionIsBounded) {
  EXPECT_THAT(error_of("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}"),
              HasSubstr("calls nested more than"));
  EXPECT_THAT(
      error_of("{% macro f(x) %}{% if 1 %}{% for i in [1] %}{% set y %}{{ [-(1 + f(x) | int)]"
               " }}{% endset %}{% endfor %}{% endif %}{% endmacro %}{{ f(1) }}"),
      HasSubstr("calls nested more than"));
  EXPECT_THAT(error_of("{% set n = namespace(a=[]) %}{% for i in range(1000) %}"
                       "{% set n.a = [n.a] %}{% endfor %}"),
              HasSubstr("nested more than 200 deep"));
  EXPECT_THAT(error_of("{% set n = namespace(a={}) %}{% for i in range(1000) %}"
                       "{% set n.a = {'x': n.a} %}{% endfor %}"),
              HasSubstr("nested more than 200 deep"));
}

TEST(JinjaHostile, WorkIsBounded) {
  EXPECT_THAT(
      error_of("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}"),
      HasSubstr("more than 10000000 steps"));
  const char* kTemplates[] = {
      "{% set a = range(10000) %}{% for i in a %}{{ '' if i in a and a == 1 }}{% endfor %}",
      // Searches that would be quadratic, and many linear ones.
      "{% set a = 'a' * 900000 %}{% for i in range(1000) %}{{ ('a' * 400000 ~ 'b') in a }}{% "
      "endfor %}",
      "{% set a = ('a' * 900000).rsplit('a' * 400000 ~ 'b') %}",
      "{% set a = 'a' * 900000 %}{% for i in range(1000) %}{{ a == a ~ '' }}{{ a | length }}{% "
      "endfor %}",
      "{% set a = 'a ' * 400000 %}{% for i in range(1000) %}{% set b = a.split() %}{% endfor %}",
      "{{ range(100000) | list | unique | list | length }}",
      "{{ range(50000) | reverse | sort | length }}", "{{ ('<a>' * 100000) | striptags }}",
      "{{ range(50000) | reverse | groupby(0) | length if false else range(50000) | batch(1) | "
      "batch(1) | batch(1) | length }}"};
  for (const char* text : kTemplates) {
    EXPECT_THAT(error_of(text, tight()), HasSubstr("more than 200000 steps")) << text;
  }
}

TEST(JinjaHostile, OutputAndStringsAreBounded) {
  const char* kTemplates[] = {"{{ 'x' * 1000000000 }}",
                              "{{ [0] * 1000000000 }}",
                              ("{% set n = namespace(a='x') %}{% for i in range(100) %}"
                               "{% set n.a = n.a ~ n.a %}{% endfor %}"),
                              "{% set a = 'x' * 10000 %}{{ a.replace('', a) }}",
                              "{{ ('x' * 10000) | replace('x', 'y' * 1000) }}",
                              "{% set a = 'x' * 600000 %}{{ a }}{{ a }}",
                              "{% set a = 'x' * 600000 %}{{ [a, a] | join }}",
                              "{% set a = 'x' * 600000 %}{{ [a, a] | tojson }}",
                              "{{ ('\t' * 10000).expandtabs(1000) }}",
                              "{% set a = 'x' * 600000 %}{{ '{}{}'.format(a, a) }}"};
  for (const char* text : kTemplates) {
    EXPECT_THAT(error_of(text, tight()), HasSubstr("more than 1000000 bytes")) << text;
  }
  EXPECT_THAT(error_of("{{ 'x' * 1000000000 }}"), HasSubstr("more than 16777216 bytes"));
  EXPECT_THAT(error_of("{{ '%999999d' % 1 }}"), HasSubstr("too large"));
  EXPECT_THAT(error_of("{{ '{:999999}'.format(1) }}"), HasSubstr("too large"));
  EXPECT_THAT(error_of("{{ '{:.101f}'.format(1) }}"), HasSubstr("too large"));
}

TEST(JinjaHostile, SharedValuesThatAreExponentialInPrintAreBounded) {
  const std::string doubling =
      "{% set n.a = [1] %}{% for i in range(60) %}"
      "{% set n.a = [n.a, n.a] %}{% endfor %}";
  const std::string first = "{% set n = namespace() %}" + doubling;
  for (const char* use : {"{{ n.a }}", "{{ n.a | tojson }}", "{{ n.a | tojson(indent=100) }}"}) {
    EXPECT_THAT(error_of(first + use, tight()), HasSubstr("more than")) << use;
  }
  EXPECT_THAT(error_of(first + "{% set b = n.a %}" + doubling + "{{ b == n.a }}", tight()),
              HasSubstr("steps"));
}

TEST(JinjaHostile, NamespacesMayHoldThemselves) {
  EXPECT_EQ(rendered("{% set n = namespace() %}{% set n.n = [n] %}{{ n.n }}").value(),
            "[<Namespace>]");
}

TEST(JinjaHostile, MacrosDoNotOutliveTheirScope) {
  EXPECT_THAT(error_of("{% set n = namespace() %}{% for i in [1] %}{% macro f() %}{{ i }}"
                       "{% endmacro %}{% set n.f = f %}{% endfor %}{{ n.f() }}"),
              HasSubstr("outside of the block"));
}

TEST(JinjaHostile, InputIsBounded) {
  Limits small;
  small.max_template_bytes = 100;
  EXPECT_THAT(error_of(std::string(101, 'x'), small), HasSubstr("at most 100 bytes"));
  ordered_json deep = 1;
  for (int i = 0; i < 300; ++i) deep = ordered_json::array({deep});
  EXPECT_FALSE(rendered("x", {{"deep", deep}}).ok());
  EXPECT_FALSE(rendered("x", {{"n", UINT64_MAX}}).ok());
}

TEST(JinjaHostile, MalformedUtf8PassesThrough) {
  const std::string bad = "\xFF\xC3 \xE2\x82";
  const auto result =
      rendered("{{ s }}|{{ s | upper }}|{{ s | length }}|{{ s[::-1] | length }}", {{"s", bad}});
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result.value(), bad + "|" + bad + "|5|5");
}

// Every cut of a template that uses most of the grammar is an error or renders; none crashes.
TEST(JinjaHostile, EveryCutOfATemplateIsHandled) {
  const std::string text =
      "{#- c -#}{% macro f(a, b=1) %}{{ a ~ b }}{% endmacro %}{% raw %}{{{% endraw %}\n"
      "{%- for k, v in {'a': [1, 2.5e3]}.items() if k is not none %}{{ f(v[0:1], b='\\x41') | "
      "upper }}"
      "{% else %}{% set x.y = 1 if not 2 in (3,) %}{% endfor -%}{% set z | trim %} q {% endset %}";
  ASSERT_TRUE(rendered(text).ok()) << rendered(text).error().message;
  for (size_t cut = 0; cut < text.size(); ++cut) {
    const auto result = rendered(text.substr(0, cut));
    EXPECT_TRUE(result.ok() || result.error().message.find("line ") != std::string::npos) << cut;
  }
}

}  // namespace
}  // namespace hf2q::jinja
