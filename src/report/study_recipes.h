// In what the recipes of a report's runs differ.
#ifndef LS_REPORT_STUDY_RECIPES_H
#define LS_REPORT_STUDY_RECIPES_H

#include <lockstep/status.h>

enum { LS_RECIPE_TEXT = 96 };

// Each recipe is a JSON object of options, or NULL. told[i] becomes the options of recipe i that another one has otherwise:
// "lr 0.01, no remat"; "" where there is none. Errors: OUT_OF_MEMORY.
ls_status ls__recipes_tell(const char *const *recipes, int count, char (*told)[LS_RECIPE_TEXT]);

#endif
