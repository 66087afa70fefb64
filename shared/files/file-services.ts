import type { Platform } from '../platform.ts'
import type { Files } from './files.ts'

/** What request and result files need. */
export type FileServices = Platform & {
  files: Files
}
