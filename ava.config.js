import { longestFirst } from './test/groups.ts'

export default {
  files: ['test/**/*.test.ts', 'test/.groups/*.test.ts', '!test/clients/**'],
  extensions: { ts: 'module' },
  // Processes often wait, for stores, for emulated providers, or for time to pass: more than there are cores.
  concurrency: 6,
  sortTestFiles: longestFirst,
  // Each test and hook has a limit of its own (test/support/test.ts), which names it. This one is for a process whose event
  // loop is blocked: it ends them all.
  timeout: '5m',
  workerThreads: false,
}
