import { Page } from '../components/page.tsx'

export default function Billing() {
  return <Page title="Billing">{null}</Page>
}
