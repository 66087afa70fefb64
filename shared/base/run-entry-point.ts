/**
 * Runs an entry point's imports. The database client is generated and not part of the repository: if it is missing,
 * prints how to generate it and exits with 1.
 */
export async function runEntryPoint<T>(program: () => Promise<T>): Promise<T> {
  try {
    return await program()
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code !== 'ERR_MODULE_NOT_FOUND' || !message.includes('/shared/generated/')) throw error
    console.error('headgate: the database client is missing: run `npx prisma generate`')
    process.exit(1)
  }
}
