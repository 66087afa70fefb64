import type { ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import type { Logger } from '../shared/io/log.ts'

/**
 * Closes a file when its reader disconnects early. A file that was deleted since the start, as after a new build, only
 * aborts its own response.
 */
export function endWithFile(response: ServerResponse, log: Logger): void {
  response.once('pipe', (file: Readable) => {
    response.once('close', () => file.destroy())
    file.once('error', error => {
      log.error({ err: error }, 'a built file cannot be read')
      response.destroy()
    })
  })
}
