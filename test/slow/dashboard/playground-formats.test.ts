import { signUp } from '../../support/dashboard/dashboard.ts'
import { findBarriers } from '../../support/io/barriers.ts'
import { newPage, startBrowser } from '../../support/io/chromium.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

/** The playground's chat in a real browser, in each format of the API. */

const gateway = useGateway(test)
const owner = use(test, () => signUp(gateway))
test.before(async () => {
  await gateway.key(owner.organisationId, 'test')
})
const browser = use(test, startBrowser)

test('a conversation goes on in every format, and the code follows', async t => {
  const page = await newPage(browser, gateway.url, { visitor: owner.visitor, t })
  await page.goto(`${gateway.url}/dashboard/${owner.organisationId}/playground/chat`)

  const formats = [
    ['Chat', '/v1/chat/completions', 'client.chat.completions.create('],
    ['Responses', '/v1/responses', 'client.responses.create('],
    ['Messages', '/v1/messages', 'client.messages.stream('],
  ] as const
  for (const [index, [format, path, call]] of formats.entries()) {
    await page.getByRole('radiogroup', { name: 'API format' }).getByText(format, { exact: true }).click()
    await page.getByRole('tab', { name: 'curl' }).click()
    await page.getByRole('region', { name: 'curl example' }).getByText(path).waitFor()
    for (const language of ['Node.js', 'Python']) {
      await page.getByRole('tab', { name: language }).click()
      await page
        .getByRole('region', { name: `${language} example` })
        .getByText(call)
        .waitFor()
    }
    await page.getByRole('textbox', { name: 'Message' }).fill(`Hello by ${format}`)
    const asked = page.waitForRequest(`**${path}`)
    await page.getByRole('button', { name: 'Send' }).click()
    const body = (await asked).postData()!
    for (const [earlier] of formats.slice(0, index)) t.true(body.includes(`Hello by ${earlier}`))
    const conversation = page.getByRole('region', { name: 'Conversation' })
    await conversation.getByText('Completed').nth(index).waitFor({ state: 'attached' })
    // The sandbox echoes.
    t.is(await conversation.getByText(`Hello by ${format}`, { exact: true }).count(), 2)
    t.is(await page.getByRole('alert').count(), 0)
  }
  t.deepEqual(await findBarriers(page), [])
})
