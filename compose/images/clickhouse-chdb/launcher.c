/* clickhouse-server: call the entry point that chdb's library exports. No Python code runs. */
#include <dlfcn.h>
#include <stdio.h>

#define ENTRY "_Z25mainEntryClickHouseServeriPPc" /* mainEntryClickHouseServer(int, char **) */

int main(int argc, char **argv)
{
    int (*server)(int, char **) = NULL;
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL);
    if (library)
        *(void **)&server = dlsym(library, ENTRY);
    if (!server) {
        fprintf(stderr, "clickhouse-server: %s\n", dlerror());
        return 1;
    }
    return server(argc, argv);
}
