// The middle of measured values.
#ifndef LS_BASE_MEDIAN_H
#define LS_BASE_MEDIAN_H

double ls_median(double *values, int count);  // sorts them; 0 where there are none

#endif
