# SPDX-License-Identifier: GPL-2.0-only
# A Debian package of the module's source for DKMS, its udev rule, and the header of its requests. Included by the Makefile.
DEB_VERSION := $(shell sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' dkms.conf)
DEB         := build/tutti-p2p-dkms_$(DEB_VERSION)_all.deb
STAGE       := build/deb

.PHONY: deb
deb: ## build an installable package (needs dpkg-deb)
	rm -rf $(STAGE)
	install -d $(STAGE)/DEBIAN $(STAGE)/usr/src/tutti-p2p-$(DEB_VERSION) $(STAGE)/lib/udev/rules.d \
		$(STAGE)/usr/include/tutti $(STAGE)/usr/share/doc/tutti-p2p-dkms
	cp -r core providers uapi compat.h Makefile packaging dkms.conf $(STAGE)/usr/src/tutti-p2p-$(DEB_VERSION)/
	find $(STAGE)/usr/src '(' -name '*.o' -o -name '.*.cmd' -o -name '*.mod*' -o -name '*.ko' ')' -delete
	install -m 644 udev/70-tutti-p2p.rules $(STAGE)/lib/udev/rules.d/
	install -m 644 uapi/tutti_p2p.h $(STAGE)/usr/include/tutti/
	install -m 644 ../LICENSES/GPL-2.0-only.txt $(STAGE)/usr/share/doc/tutti-p2p-dkms/copyright
	sed 's/@VERSION@/$(DEB_VERSION)/' packaging/control > $(STAGE)/DEBIAN/control
	for script in postinst prerm; do \
		sed 's/@VERSION@/$(DEB_VERSION)/' packaging/$$script > $(STAGE)/DEBIAN/$$script; \
		chmod 755 $(STAGE)/DEBIAN/$$script; done
	dpkg-deb --root-owner-group --build $(STAGE) $(DEB)
