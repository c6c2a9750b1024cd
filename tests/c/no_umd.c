/* A shared object that is not a user-mode driver. */
int is_no_driver(void);

int is_no_driver(void)
{
    return 1;
}
