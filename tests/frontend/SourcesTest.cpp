// Files: reading, imports, places in text.

#include "SpecTesting.h"

#include "frontend/syntax/Lexer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <unistd.h>

using namespace meshc::frontend;
using testing::HasSubstr;

namespace {

/// A folder of its own for each test.
class SourcesTest : public testing::Test {
protected:
  void SetUp() override {
    const auto *info = testing::UnitTest::GetInstance()->current_test_info();
    folder =
        std::filesystem::path(testing::TempDir()) /
        (std::string("meshc_") + info->name() + "_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string write(const std::string &name, const std::string &text) {
    std::filesystem::create_directories((folder / name).parent_path());
    std::ofstream(folder / name, std::ios::binary) << text;
    return (folder / name).string();
  }
  static Code getOnlyCode(const SpecRun &run) {
    EXPECT_EQ(run.diagnostics.getErrors().size(), 1u) << run.getText();
    return run.diagnostics.getErrors().at(0).code;
  }

  std::filesystem::path folder;
};

const std::string mainModel =
    "dim batch = 6\n"
    "model m(x: f32[batch]) { output o = sum(twice(x)) }\n";

} // namespace

TEST_F(SourcesTest, MissingFileAndFolder) {
  SpecRun missing(SpecOptions{(folder / "none.mesh").string()});
  EXPECT_EQ(getOnlyCode(missing), Code::CannotRead);
  EXPECT_THAT(missing.getText(), HasSubstr("no such file"));
  SpecRun directory(SpecOptions{folder.string()});
  EXPECT_EQ(getOnlyCode(directory), Code::CannotRead);
}

TEST_F(SourcesTest, FileOfTheLargestSizeIsReadAndOneMoreIsNot) {
  std::string text(Limits::fileBytes, '\n');
  SpecRun largest(SpecOptions{write("largest.mesh", text)});
  EXPECT_EQ(getOnlyCode(largest), Code::MissingModel);
  SpecRun larger(SpecOptions{write("larger.mesh", text + "\n")});
  EXPECT_EQ(getOnlyCode(larger), Code::FileTooLarge);
}

TEST_F(SourcesTest, ImportsAreRelativeToTheImporter) {
  write("lib/inner.mesh", "fn once(x) { return x }\n");
  write("lib/layers.mesh", "import \"inner.mesh\"\n"
                           "fn twice(x) { return once(x) + once(x) }\n");
  std::string path = write("main.mesh", "import \"lib/layers.mesh\"\n"
                                        "import \"lib/inner.mesh\"\n" +
                                            mainModel);
  SpecRun run(SpecOptions{path});
  EXPECT_TRUE(run.module) << run.getText();
}

TEST_F(SourcesTest, MissingImport) {
  std::string path = write("main.mesh", "import \"layers.mesh\"\n" + mainModel);
  SpecRun run(SpecOptions{path});
  EXPECT_EQ(getOnlyCode(run), Code::CannotRead);
  EXPECT_THAT(run.getText(), HasSubstr("main.mesh:1:8: error[MC0101]"));
}

TEST_F(SourcesTest, ImportCycle) {
  write("a.mesh", "import \"b.mesh\"\n");
  write("b.mesh", "\nimport \"./a.mesh\"\n");
  SpecRun run(SpecOptions{(folder / "a.mesh").string()});
  EXPECT_EQ(getOnlyCode(run), Code::ImportCycle);
  EXPECT_THAT(run.getText(), HasSubstr("b.mesh:2:8: error"));
  EXPECT_THAT(run.getText(), HasSubstr("a.mesh -> b.mesh -> a.mesh"));
  SpecRun self(SpecOptions{write("self.mesh", "import \"self.mesh\"\n")});
  EXPECT_EQ(getOnlyCode(self), Code::ImportCycle);
}

TEST_F(SourcesTest, ImportsTooDeep) {
  for (int i = 0; i < 100; ++i)
    write("f" + std::to_string(i) + ".mesh",
          "import \"f" + std::to_string(i + 1) + ".mesh\"\n");
  SpecRun run(SpecOptions{(folder / "f0.mesh").string()});
  EXPECT_EQ(getOnlyCode(run), Code::TooManyImports);
}

TEST_F(SourcesTest, ErrorsInImportedFilesPointThere) {
  write("layers.mesh", "fn twice(x) {\n  return x + unknown\n}\n");
  std::string path = write("main.mesh", "import \"layers.mesh\"\n" + mainModel);
  SpecRun run(SpecOptions{path});
  EXPECT_EQ(getOnlyCode(run), Code::UnknownName);
  EXPECT_THAT(run.getText(), HasSubstr("layers.mesh:2:14: error"));
  EXPECT_THAT(run.getText(), HasSubstr("main.mesh:3:41"));
}

TEST(SourcePlaces, ColumnsCountCodePoints) {
  // Longer than a block of the index, with characters of 1 to 4 bytes.
  std::string line;
  std::vector<uint32_t> starts;
  const char *const characters[] = {"a", "\xC3\xA4", "\xE2\x82\xAC",
                                    "\xF0\x9F\x98\x80"};
  for (int i = 0; i < 5000; ++i) {
    starts.push_back(uint32_t(line.size()));
    line += characters[i % 4];
  }
  Source source("test", "first\n" + line + "\nlast", false);
  for (size_t i : {size_t(0), size_t(3), size_t(1638), size_t(4999)}) {
    LineColumn place = source.getLineColumn(6 + starts[i]);
    EXPECT_EQ(place.line, 2u);
    EXPECT_EQ(place.column, i + 1);
    EXPECT_EQ(source.getOffset(place), 6 + starts[i]);
  }
  EXPECT_EQ(source.getLineColumn(uint32_t(6 + line.size() + 1)).line, 3u);
  EXPECT_EQ(source.getLine(3), "last");
  EXPECT_EQ(source.getOffset({9, 9}), source.getText().size());
}
