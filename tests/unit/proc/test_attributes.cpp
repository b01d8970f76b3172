// SPDX-License-Identifier: Apache-2.0
// service.name out of environments, container.id out of control groups.
#include <doctest/doctest.h>

#include <random>
#include <string>
#include <string_view>

#include "fixture.h"
#include "proc/attributes.h"
#include "proc/procfs.h"

namespace spanfold::proc {
namespace {

using namespace std::string_view_literals;

const std::string kId = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const std::string kOther(64, 'b');

}  // namespace

TEST_CASE("service.name: precedence, decoding, and what voids it") {
  CHECK(service_name("") == "");
  CHECK(service_name("PATH=/bin\0OTEL_SERVICE_NAME=shop\0"sv) == "shop");
  CHECK(service_name("OTEL_RESOURCE_ATTRIBUTES=service.name=b\0OTEL_SERVICE_NAME=a\0"sv) == "a");
  CHECK(service_name("OTEL_SERVICE_NAME=\0OTEL_RESOURCE_ATTRIBUTES=service.name=b"sv) == "b");
  CHECK(service_name("OTEL_SERVICE_NAME=a\0OTEL_SERVICE_NAME=b\0"sv) == "a");
  CHECK(service_name("NOT_OTEL_SERVICE_NAME=a\0OTEL_SERVICE_NAMES=b\0OTEL_SERVICE_NAME"sv) == "");
  CHECK(service_name("OTEL_SERVICE_NAME=100%25") == "100%25");  // this one is plain text
  CHECK(service_name("OTEL_RESOURCE_ATTRIBUTES=k=v, service.name = my%20shop%2C%3D ,x=y") == "my shop,=");
  CHECK(service_name("OTEL_RESOURCE_ATTRIBUTES=service.name=a=b") == "a=b");
  CHECK(service_name("OTEL_RESOURCE_ATTRIBUTES=service%2Ename=a,") == "a");
  CHECK(service_name("OTEL_RESOURCE_ATTRIBUTES=service.namespace=a") == "");
  for (const auto* bad : {"service.name=a%", "service.name=a%2", "service.name=a%zz", "service.name=a,k",
                          "service.name=a,=v", "service.name=a,k=%-1"}) {
    CHECK(service_name(std::string("OTEL_RESOURCE_ATTRIBUTES=") + bad) == "");
  }
}

TEST_CASE("container.id: docker, containerd, CRI-O, podman, under v1, v2 and hybrid") {
  const auto of_path = [](const std::string& path) { return container_id("0::" + path + "\n"); };
  CHECK(of_path("/docker/" + kId) == kId);
  CHECK(of_path("/system.slice/docker-" + kId + ".scope") == kId);
  CHECK(of_path("/kubepods/burstable/pod1b2c/" + kId) == kId);
  CHECK(of_path("/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + kId + ".scope") == kId);
  CHECK(of_path("/system.slice/containerd.service/kubepods-burstable-pod1.slice:cri-containerd:" + kId) == kId);
  CHECK(of_path("/kubepods.slice/kubepods-pod1.slice/crio-" + kId + ".scope") == kId);
  CHECK(of_path("/kubepods.slice/kubepods-pod1.slice/crio-" + kId + ".scope/container") == kId);
  CHECK(of_path("/machine.slice/libpod-" + kId + ".scope") == kId);
  CHECK(of_path("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + kId + ".scope/container") == kId);
  CHECK(of_path("/../" + kId) == kId);
  CHECK(of_path("/docker/" + kOther + "/docker/" + kId) == kId);
  CHECK(container_id("12:cpu,cpuacct:/docker/" + kId + "\n1:name=systemd:/docker/" + kId + "\n0::/\n") == kId);
  CHECK(container_id("1:name=systemd:/\n0::/docker/" + kId) == kId);
}

TEST_CASE("container.id: groups within a container, containers within one, pods and who watches them") {
  const auto of_path = [](const std::string& path) { return container_id("0::" + path + "\n"); };
  const std::string pod = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod26822839_8c92.slice";
  CHECK(of_path(pod + "/docker-" + kId + ".scope/kube-proxy") == kId);
  CHECK(of_path("/system.slice/docker-" + kId + ".scope/init.scope") == kId);
  CHECK(of_path("/system.slice/docker-" + kOther + ".scope/kubelet.slice/kubelet-kubepods.slice/cri-containerd-" + kId +
                ".scope") == kId);
  CHECK(of_path("/docker/" + kOther + "/kubelet.slice/kubelet-pod1.slice:cri-containerd:" + kId) == kId);
  CHECK(of_path("/system.slice/nerdctl-" + kId + ".scope") == kId);
  CHECK(of_path("/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" + kId + ".scope") == kId);
  CHECK(of_path("/kubepods/burstable/pod44e2e33e-776b/crio-" + kId) == kId);
  CHECK(of_path("/kubepods/burstable/pod44e2e33e-776b/crio-conmon-" + kId) == "");
  CHECK(of_path(pod + "/crio-conmon-" + kId + ".scope") == "");
  // Podman: --cgroups=split, and pods under systemd and under cgroupfs.
  CHECK(of_path("/system.slice/shop.service/libpod-payload-" + kId) == kId);
  CHECK(of_path("/system.slice/shop.service/runtime") == "");
  CHECK(of_path("/machine.slice/machine-libpod_pod_" + kOther + ".slice/libpod-" + kId + ".scope/container") == kId);
  CHECK(of_path("/machine.slice/machine-libpod_pod_" + kOther + ".slice/libpod-conmon-" + kId + ".scope") == "");
  CHECK(of_path("/libpod_parent/libpod-" + kId) == kId);
  CHECK(of_path("/libpod_parent/" + kOther + "/libpod-" + kId) == kId);
  CHECK(of_path("/libpod_parent/" + kOther + "/conmon") == "");
  CHECK(of_path("/libpod_parent/conmon") == "");
}

TEST_CASE("container.id: hybrid hierarchies, whichever of them names the container") {
  CHECK(container_id("13:pids:/libpod_parent/libpod-" + kId + "\n1:name=systemd:/\n0::/\n") == kId);
  CHECK(container_id("11:cpuset:/\n10:pids:/system.slice/docker.service\n1:name=systemd:/docker/" + kId + "\n0::/\n") ==
        kId);
  CHECK(container_id("4:memory:/kubepods/besteffort/pod1/" + kId + "\n0::/system.slice/containerd.service\n") == kId);
  CHECK(container_id("1:name=systemd:/\n0::/kubepods.slice/cri-containerd-" + kId + ".scope\n") == kId);
}

TEST_CASE("container.id: none where there is none") {
  CHECK(container_id("") == "");
  CHECK(container_id("0::/\n") == "");
  CHECK(container_id("0::/system.slice/cron.service\n") == "");
  CHECK(container_id("0::/docker/" + kId.substr(1)) == "");
  CHECK(container_id("0::/docker/" + kId + "0") == "");
  CHECK(container_id("0::/docker/" + std::string(64, 'g')) == "");
  CHECK(container_id("0::/machine.slice/libpod-conmon-" + kId + ".scope") == "");
  CHECK(container_id("0::/kubepods.slice/crio-conmon-" + kId + ".scope") == "");
  CHECK(container_id(kId) == "");
  CHECK(container_id("0:" + kId) == "");
}

TEST_CASE("attributes: random bytes never crash, ids have their form") {
  std::mt19937 random(2);
  const std::string seed = "3:a:/docker-" + kId + ".scope\n0::/x\nOTEL_RESOURCE_ATTRIBUTES=service.name=%20a,b=c";
  for (int round = 0; round < 20'000; ++round) {
    std::string text = seed.substr(random() % 20);
    for (int i = 0; i < 6; ++i) text[random() % text.size()] = static_cast<char>(random());
    if (random() % 4 == 0) text.resize(random() % text.size());
    const std::string id = container_id(text);
    REQUIRE((id.empty() || id.size() == 64));
    (void)service_name(text);
  }
}

TEST_CASE("attributes of a running process") {
  const test::Child child({"/bin/sh", "-c", "echo up; sleep 60; true"},
                          {"OTEL_RESOURCE_ATTRIBUTES=service.name=my%20shop,service.version=1"});
  const Fd folder = open_process_folder(static_cast<std::uint32_t>(child.pid()));
  const ProcessAttributes attributes = read_attributes(folder.get());
  const std::string shell = std::filesystem::canonical("/bin/sh");
  const auto has = [&](const std::string& key, const std::string& value) {
    return std::find(attributes.begin(), attributes.end(), std::pair(key, value)) != attributes.end();
  };
  CHECK(has("service.name", "my shop"));
  CHECK(has("process.executable.path", shell));
  CHECK(has("process.executable.name", shell.substr(shell.rfind('/') + 1)));
}

TEST_CASE("host attributes") {
  const ProcessAttributes attributes = host_attributes();
  REQUIRE(attributes.size() == 2);
  CHECK(attributes[0].first == "host.name");
  CHECK(attributes[1] == std::pair<std::string, std::string>("os.type", "linux"));
}

}  // namespace spanfold::proc
