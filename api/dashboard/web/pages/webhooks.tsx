import { Page } from '../components/page.tsx'

export default function Webhooks() {
  return <Page title="Webhooks">{null}</Page>
}
