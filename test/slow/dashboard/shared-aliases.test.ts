import { signUp } from '../../support/dashboard/dashboard.ts'
import { eventually } from '../../support/gateway.ts'
import { newPage, startBrowser } from '../../support/io/chromium.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

const gateway = useGateway(test)
const owner = use(test, () => signUp(gateway))
const browser = use(test, startBrowser)

test('an operator shares an alias between three models, sees the shares, and removes it', async t => {
  await gateway.services.db.user.update({ where: { id: owner.userId }, data: { operator: true } })
  const page = await newPage(browser, gateway.url, {
    visitor: owner.visitor,
    t,
    viewport: { width: 1280, height: 900 },
  })
  await page.goto(`${gateway.url}/dashboard/operator/models?search=gpt-4o-mini`)
  await page.getByRole('button', { name: 'Edit gpt-4o-mini', exact: true }).click()
  const section = page.getByRole('region', { name: 'Shared aliases' })
  await section.getByLabel('New shared alias').fill('house-trial')
  await section.getByLabel('Model 2', { exact: true }).fill('openai/gpt-4o')
  await section.getByRole('button', { name: 'Add a model' }).click()
  await section.getByLabel('Model 3', { exact: true }).fill('claude-haiku-4-5')
  const add = section.getByRole('button', { name: 'Add shared alias' })
  await section.getByLabel('Percent of model 1', { exact: true }).fill('80')
  await section.getByLabel('Percent of model 3', { exact: true }).fill('10')
  await section.getByText('100 % of 100 %').waitFor()
  await add.click()
  await section.getByText('gpt-4o-mini 80 %, gpt-4o 10 %, claude-haiku-4-5 10 %').waitFor()
  t.is(gateway.services.catalog.arms.get('house-trial')?.length, 3)
  await section.getByRole('button', { name: 'Remove house-trial' }).click()
  await eventually(() => gateway.services.catalog.arms.size === 0, 'it is removed')
})
