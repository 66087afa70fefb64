import type { FileServices } from '../files/file-services.ts'
import type { ContentLog } from './content-log.ts'
import type { Contents } from './contents.ts'

/** What the log of inputs and outputs needs. */
export type ContentLogServices = FileServices & {
  contents: Contents
  contentLog: ContentLog
}
