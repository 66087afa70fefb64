/**
 * Runs what an entry point loads. The database client is generated and not part of the repository: where it is missing, one
 * line says how to make it and the process exits with 1.
 */
export async function load<T>(program: () => Promise<T>): Promise<T> {
  try {
    return await program()
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code !== 'ERR_MODULE_NOT_FOUND' || !message.includes('/shared/generated/')) throw error
    console.error('headgate: the database client is missing: run `npx prisma generate`')
    process.exit(1)
  }
}
