// Many more of the usages that test/chat/usage-classes.test.ts checks.

import { checkUsageClasses, dialects } from '../../support/chat/usage-classes.ts'
import { test } from '../../support/test.ts'

for (const [name, dialect, answerOf] of dialects) {
  test(`every token in exactly one class, charged once, by chat and by Messages: ${name}`, async t => {
    t.timeout(240_000)
    await t.notThrowsAsync(checkUsageClasses(dialect, answerOf, 5_000))
  })
}
