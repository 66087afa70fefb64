/** The client tests: files of their own, over one gateway that `run.ts` starts. */
export default {
  files: ['*.test.ts', '*/*.test.ts', '!support/**'],
  extensions: { ts: 'module' },
  concurrency: 2,
  timeout: '1m',
  workerThreads: false,
}
