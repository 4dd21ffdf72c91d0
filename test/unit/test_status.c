#include <ctype.h>

#include "mca/common/base/status.h"
#include "test/unit/unit.h"

int main(void)
{
    unit_begin();
    for (int a = -10; a <= 1; ++a) {
        const char *text = mscclpp_status_string((mscclpp_status_t)a);
        CHECK(text != NULL && text[0] != '\0');
        CHECK(strcmp(text, mscclpp_status_string((mscclpp_status_t)1000)) != 0);
        CHECK(!isupper((unsigned char)text[0]));
        for (int b = -10; b < a; ++b) {
            CHECK(strcmp(text, mscclpp_status_string((mscclpp_status_t)b)) != 0);
        }
    }
    CHECK_TEXT(mscclpp_status_string(MSCCLPP_OK), "success");
    CHECK_TEXT(mscclpp_status_string((mscclpp_status_t)1000), "unknown status");
    CHECK_TEXT(mscclpp_status_string((mscclpp_status_t)-1000), "unknown status");
    return unit_end();
}
