import type { BrowserSession } from './browser-session.ts'
import type { Ids } from './page-calls.ts'
export async function measurePages(_session: BrowserSession, _ids: Ids, _loads: number): Promise<object[]> {
  return []
}
