import { newId } from '../base/ids.ts'
import type { LogExport } from '../generated/prisma/client.ts'
import { isSuccess } from '../io/http.ts'
import { PinnedPools } from '../io/pinned-pools.ts'
import { type SendServices, sendTest } from './send.ts'

/** A caller waits for it. */
const timeoutMs = 8_000

type TestResult = { delivered: boolean; status: number | null; error: string | null; response: string | null }

/** Sends a sample to an export's destination and returns what it answered. No cursor moves. */
export async function testExport(services: SendServices, row: LogExport): Promise<TestResult> {
  const pools = new PinnedPools(timeoutMs, services.urlPolicy.proxies)
  try {
    const { status, error, response } = await sendTest(services, row, newId('expc'), { pools, timeoutMs })
    return { delivered: status !== null && isSuccess(status), status, error, response }
  } finally {
    await pools.close()
  }
}
