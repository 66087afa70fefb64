import { checkUsageClasses, dialects } from '../support/chat/usage-classes.ts'
import { test } from '../support/test.ts'

for (const [name, dialect, answerOf] of dialects) {
  test(`every token in exactly one class, charged once, by chat and by Messages: ${name}`, async t => {
    await t.notThrowsAsync(checkUsageClasses(dialect, answerOf, 150))
  })
}
