/* page.css and page.js as texts: the build makes them of the files. */
#ifndef MPT_REPORT_PAGE_PARTS_H
#define MPT_REPORT_PAGE_PARTS_H

extern const char mpt_page_css[];
extern const char mpt_page_js[];

#endif
