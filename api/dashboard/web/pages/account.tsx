import { Page } from '../components/page.tsx'

export default function Account() {
  return <Page title="Account">{null}</Page>
}
