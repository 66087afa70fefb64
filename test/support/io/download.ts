import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { readFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Page } from 'playwright-core'

const maxTries = 3
const answered = 'http.server.response.finish'

/**
 * Clicks a link that downloads a file from a gateway in this process, and returns the file. An answer that asks to try
 * again (503) is followed, as a person would. Throws an Error with the answers where there is no file: the browser
 * itself says no more than "canceled".
 */
export async function download(page: Page, click: () => Promise<unknown>): Promise<{ name: string; bytes: Buffer }> {
  const answers: string[] = []
  const note = (message: unknown) => {
    const { request, response } = message as { request: IncomingMessage; response: ServerResponse }
    answers.push(`${response.statusCode} to ${request.url}`)
  }
  subscribe(answered, note)
  try {
    for (let tries = 1; ; tries++) {
      const [file] = await Promise.all([page.waitForEvent('download'), click()])
      const failure = await file.failure()
      if (failure === null) return { name: file.suggestedFilename(), bytes: await readFile(await file.path()) }
      const { pathname } = new URL(file.url())
      const refusals = answers.filter(answer => answer.startsWith(`503 to ${pathname}`)).length
      if (refusals < tries || tries === maxTries)
        throw new Error(`${file.url()}: ${failure}; answered: ${answers.join(', ')}`)
    }
  } finally {
    unsubscribe(answered, note)
  }
}
